//! The vocabulary of the samples: harbours, their berths and boats. All of it is invented.

pub(super) const AGENTS: [&str; 10] = [
    "Mozilla/5.0 (X11; Linux x86_64) HarbourView/4.2",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) HarbourView/4.2",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) HarbourView/4.1",
    "BerthApp/7.0 (iPhone; iOS 18.1)",
    "BerthApp/7.0 (Android 15)",
    "tidewatch/0.9 python-httpx/0.27",
    "node",
    "curl/8.9.1",
    "Dart/3.5 (dart:io)",
    "Vigía/1.3 (compatible; crawler)",
];
pub(super) const CLIENTS: [&str; 4] =
    ["harbour-js/2.8.0", "harbour-js/2.9.1", "harbour-py/1.4.2", "harbour-dart/0.6.0"];
pub(super) const TABLES: [&str; 40] = [
    "anchors",
    "arrivals",
    "barges",
    "beacons",
    "berths",
    "boats",
    "bookings",
    "bridges",
    "buoys",
    "canals",
    "cargo",
    "charts",
    "crews",
    "currents",
    "customs",
    "departures",
    "depths",
    "docks",
    "fees",
    "ferries",
    "flags",
    "fuel_sales",
    "gauges",
    "harbours",
    "invoices",
    "islands",
    "lighthouses",
    "locks",
    "manifests",
    "moorings",
    "owners",
    "pilots",
    "ports",
    "quays",
    "routes",
    "sailors",
    "tides",
    "tugs",
    "voyages",
    "winds",
];
pub(super) const FILTERS: [&str; 12] = [
    "?select=*",
    "?select=id%2Cname%2Clength&limit=20",
    "?select=*&order=arrived_at.desc&limit=50",
    "?name=eq.%C3%86r%C3%B8&select=id",
    "?name=ilike.*port*&select=*%2Cberths(*)",
    "?owner=eq.O'Malley",
    "?note=like.100%25*",
    "?remark=eq.say%20%22ahoy%22",
    "?path=eq.C:\\charts\\north",
    "?depth=gte.4.5&depth=lt.12&select=id,depth",
    "?city=eq.Gdańsk",
    "?status=in.(moored,sailing,%22in%20dock%22)",
];
pub(super) const OBJECTS: [&str; 10] = [
    "/object/public/charts/north-sea.pdf",
    "/object/public/photos/lighthouse.webp",
    "/object/public/photos/søkort-🌊.png",
    "/object/sign/papers/manifest-0042.pdf",
    "/object/authenticated/papers/crew list.csv",
    "/object/info/charts/bay.json",
    "/object/list/photos",
    "/render/image/public/photos/quay.jpg?width=320&quality=70",
    "/upload/resumable/photos",
    "/object/photos/Ÿ'ard \"A\".jpg",
];
pub(super) const FUNCTIONS: [&str; 6] =
    ["assign-berth", "tide-forecast", "mail-harbourmaster", "resize-photo", "close-day", "weather-hook"];
pub(super) const REGIONS: [&str; 4] = ["eu-north-1", "eu-central-2", "us-east-2", "ap-southeast-1"];

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    pub(super) asn: u32,
    pub(super) carrier: &'static str,
    pub(super) city: &'static str,
    pub(super) region: &'static str,
    pub(super) country: &'static str,
    pub(super) continent: &'static str,
    pub(super) colo: &'static str,
    pub(super) latitude: &'static str,
    pub(super) longitude: &'static str,
    pub(super) timezone: &'static str,
}

const fn place(
    (asn, carrier): (u32, &'static str),
    (city, region, country, continent): (&'static str, &'static str, &'static str, &'static str),
    colo: &'static str,
    (latitude, longitude): (&'static str, &'static str),
    timezone: &'static str,
) -> Place {
    Place { asn, carrier, city, region, country, continent, colo, latitude, longitude, timezone }
}

pub(super) const PLACES: [Place; 8] = [
    place((64_501, "Fjord Net"), ("Bergen", "Vestland", "NO", "EU"), "OSL", ("60.39", "5.32"), "Europe/Oslo"),
    place((64_502, "Elbe Kabel"), ("Hamburg", "Hamburg", "DE", "EU"), "HAM", ("53.55", "9.99"), "Europe/Berlin"),
    place((64_503, "Bałtyk Sieć"), ("Gdańsk", "Pomorskie", "PL", "EU"), "WAW", ("54.35", "18.65"), "Europe/Warsaw"),
    place((64_504, "Gulf Wireless"), ("Galveston", "Texas", "US", "NA"), "DFW", ("29.30", "-94.79"), "America/Chicago"),
    place((64_505, "Maine Fiber"), ("Portland", "Maine", "US", "NA"), "BOS", ("43.66", "-70.26"), "America/New_York"),
    place((64_506, "Rio Banda"), ("Santos", "São Paulo", "BR", "SA"), "GRU", ("-23.96", "-46.33"), "America/Sao_Paulo"),
    place((64_507, "港ネット"), ("Yokohama", "Kanagawa", "JP", "AS"), "NRT", ("35.44", "139.64"), "Asia/Tokyo"),
    place(
        (64_508, "Southern Cross ISP"),
        ("Hobart", "Tasmania", "AU", "OC"),
        "MEL",
        ("-42.88", "147.33"),
        "Australia/Hobart",
    ),
];

pub(super) const PEOPLE: [&str; 12] =
    ["ingrid", "mateusz", "søren", "yuki", "amara", "o'neill", "lúcia", "tom", "freya", "jonas", "zoë", "kiri"];
