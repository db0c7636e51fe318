//! Kernels of hosts and addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::kernel::Kernel;
use crate::rows::{Body, Out, Row, RowError, RowResult};

pub(crate) const KERNELS: &[Kernel] = &[
    Kernel::rows("net_host", 1..=1, Body::Text(host)),
    Kernel::rows(
        "ip_from_text",
        1..=1,
        Body::Bytes(|row, out| {
            match row.text(0).parse::<IpAddr>() {
                Ok(IpAddr::V4(ip)) => out.bytes(&ip.octets())?,
                Ok(IpAddr::V6(ip)) => out.bytes(&ip.octets())?,
                Err(_) => {
                    let short: String = row.text(0).chars().take(60).collect();
                    return Err(
                        format!("'{short}' is no IP address; NET.SAFE_IP_FROM_STRING gives NULL instead").into()
                    );
                }
            }
            Ok(Some(()))
        }),
    ),
    Kernel::rows(
        "ip_text",
        1..=1,
        Body::Text(|row, out| {
            out.text(&address(row.bytes(0))?.to_string())?;
            Ok(Some(()))
        }),
    ),
    Kernel::rows(
        "ip_mask",
        2..=2,
        Body::Bytes(|row, out| {
            let size = match row.int(0) {
                4 => 4,
                16 => 16,
                other => return Err(format!("an address has 4 or 16 bytes, not {other}").into()),
            };
            masked(&[0xff; 16], size, row.int(1), out)
        }),
    ),
    Kernel::rows(
        "ip_cut",
        2..=2,
        Body::Bytes(|row, out| {
            address(row.bytes(0))?;
            masked(row.bytes(0), row.bytes(0).len(), row.int(1), out)
        }),
    ),
    Kernel::rows(
        "ipv4_from_number",
        1..=1,
        Body::Bytes(|row, out| {
            let number = row.int(0);
            let bits = u32::try_from(number).ok().or_else(|| i32::try_from(number).ok().map(i32::cast_unsigned));
            let bits = bits.ok_or_else(|| format!("{number} is no IPv4 address"))?;
            out.bytes(&bits.to_be_bytes())?;
            Ok(Some(()))
        }),
    ),
    Kernel::rows(
        "ipv4_number",
        1..=1,
        Body::Int(|row| match address(row.bytes(0))? {
            IpAddr::V4(ip) => Ok(Some(i64::from(ip.to_bits()))),
            IpAddr::V6(_) => Err("NET.IPV4_TO_INT64 takes an address of 4 bytes, not 16".into()),
        }),
    ),
];

fn address(bytes: &[u8]) -> std::result::Result<IpAddr, RowError> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Ok(IpAddr::V4(Ipv4Addr::from(bytes)));
    }
    let bytes =
        <[u8; 16]>::try_from(bytes).map_err(|_| format!("an address has 4 or 16 bytes, not {}", bytes.len()))?;
    Ok(IpAddr::V6(Ipv6Addr::from(bytes)))
}

/// The first `prefix` bits of an address, the others 0.
fn masked(bytes: &[u8], size: usize, prefix: i64, out: &mut Out) -> RowResult<()> {
    let prefix = usize::try_from(prefix)
        .ok()
        .filter(|prefix| *prefix <= size * 8)
        .ok_or_else(|| format!("a prefix has 0 to {} bits, not {prefix}", size * 8))?;
    for (i, byte) in bytes.iter().take(size).enumerate() {
        let kept = prefix.saturating_sub(i * 8).min(8);
        let mask = u8::try_from(0xff00_u32 >> kept & 0xff).unwrap_or_default();
        out.bytes(&[byte & mask])?;
    }
    Ok(Some(()))
}

/// The host of a URL as it is written; NULL where there is none.
fn host(row: &Row, out: &mut Out) -> RowResult<()> {
    let url = row.text(0).trim();
    let (_, rest) = url.split_once("//").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(v6) => v6.find(']').and_then(|end| host.get(..end + 2)),
        None => host.split(':').next(),
    };
    match host.filter(|host| !host.is_empty()) {
        Some(host) => out.text(host).map(Some),
        None => Ok(None),
    }
}
