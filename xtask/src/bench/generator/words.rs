//! The words of the generated records: a chain of bakeries. All of it is invented.

pub(crate) const TABLES: [&str; 40] = [
    "almonds",
    "aprons",
    "bagels",
    "bakers",
    "baskets",
    "batches",
    "bills",
    "breads",
    "buns",
    "butter",
    "cakes",
    "carts",
    "cookies",
    "couriers",
    "croissants",
    "customers",
    "deliveries",
    "doughs",
    "eggs",
    "flours",
    "guests",
    "honeys",
    "icings",
    "jams",
    "kitchens",
    "lighthouses",
    "menus",
    "mills",
    "mixers",
    "orders",
    "ovens",
    "pies",
    "prices",
    "recipes",
    "rolls",
    "salts",
    "shops",
    "spices",
    "tarts",
    "yeasts",
];
pub(crate) const FILTERS: [&str; 8] = [
    "?select=*",
    "?select=id,name&order=name.asc&limit=20",
    "?order=baked_at.desc&limit=50",
    "?name=ilike.*cr%C3%A8me*",
    "?select=*,shops(name)&state=eq.open",
    "?select=count",
    "?note=eq.it's%20warm",
    "?or=(price.lt.5,stock.gt.100)",
];
pub(crate) const FUNCTIONS: [&str; 12] = [
    "bake-plan",
    "charge-card",
    "daily-report",
    "label-print",
    "mail-receipt",
    "menu-sync",
    "oven-alert",
    "quote",
    "resize-photo",
    "route-plan",
    "stock-check",
    "webhook",
];
pub(crate) const AUTH_PATHS: [&str; 8] = ["/token", "/token", "/token", "/user", "/user", "/signup", "/otp", "/logout"];
pub(crate) const BUCKETS: [&str; 5] = ["photos", "labels", "invoices", "menus", "crème-brûlée"];
pub(crate) const CLIENTS: [&str; 5] =
    ["bakery-js/2.45.0", "bakery-js/2.44.2", "bakery-py/2.7.4", "bakery-dart/1.9.0", "bakery-swift/2.1.0"];
/// Country, city, continent, data centre, network number, its name, latitude, longitude.
pub(crate) type Place =
    (&'static str, &'static str, &'static str, &'static str, u64, &'static str, &'static str, &'static str);
pub(crate) const PLACES: [Place; 10] = [
    ("DE", "Leipzig", "EU", "FRA", 64_496, "Linden Net", "51.34", "12.37"),
    ("FR", "Lyon", "EU", "CDG", 64_497, "Rhône Fibre", "45.76", "4.84"),
    ("PT", "Braga", "EU", "LIS", 64_498, "Minho Telecom", "41.55", "-8.43"),
    ("US", "Omaha", "NA", "ORD", 64_499, "Prairie Cable", "41.26", "-95.93"),
    ("US", "Tacoma", "NA", "SEA", 64_500, "Sound Broadband", "47.25", "-122.44"),
    ("BR", "Recife", "SA", "GRU", 64_501, "Capibaribe", "-8.05", "-34.88"),
    ("IN", "Pune", "AS", "BOM", 64_502, "Deccan Mobile", "18.52", "73.86"),
    ("JP", "Sendai", "AS", "NRT", 64_503, "Hirose Net", "38.27", "140.87"),
    ("KE", "Nakuru", "AF", "NBO", 64_504, "Rift Wireless", "-0.30", "36.08"),
    ("AU", "Hobart", "OC", "SYD", 64_505, "Derwent Link", "-42.88", "147.33"),
];
pub(crate) const PLATFORMS: [&str; 8] = [
    "iPhone; iOS 18.1",
    "Android 15",
    "Android 14",
    "Macintosh; Intel Mac OS X 14_5",
    "Windows NT 10.0; Win64; x64",
    "X11; Linux x86_64",
    "iPad; iPadOS 18.0",
    "compatible; crawler",
];
pub(crate) const OUTPUT: [&str; 6] = [
    "the order was taken",
    "asking the card service",
    "card service answered 429, trying again",
    "no stock left of \"crème brûlée\"",
    "Error: connection to the oven was lost {code: -7, retry: true}",
    "done",
];
pub(crate) const ERRORS: [(&str, &str); 4] = [
    ("23505", "duplicate key value violates unique constraint \"orders_number_key\""),
    ("42501", "permission denied for table recipes"),
    ("57014", "canceling statement due to statement timeout"),
    ("42P01", "relation \"public.cake\" does not exist"),
];
pub(crate) const NOTICES: [&str; 5] = [
    "connection authorized: user=authenticator database=bakery",
    "checkpoint complete: wrote 412 buffers (2.5%)",
    "cron job 4 starting: select refresh_prices()",
    "duration: 1204.551 ms  statement: select * from orders where state = 'open'",
    "automatic vacuum of table \"bakery.public.orders\": index scans: 1",
];
