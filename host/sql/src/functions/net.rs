//! NET: hosts and addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::kernels::Entry;
use super::rows::{Bad, Body, Made, Out, Row};
use super::{Builder, Call, kernel};
use tidegate_model::Code;

use crate::fail::{Result, fail};
use crate::typed::Typed;
use crate::types::Type;

pub(super) const FUNCTIONS: &[(&str, Builder)] = &[
    ("NET.HOST", |call| call.run("net_host", 1, &[Type::String], Type::String)),
    ("NET.PUBLIC_SUFFIX", no_suffixes),
    ("NET.REG_DOMAIN", no_suffixes),
    ("NET.IP_FROM_STRING", |call| call.run("ip_from_text", 1, &[Type::String], Type::Bytes)),
    ("NET.SAFE_IP_FROM_STRING", |call| {
        call.count(1, 1)?;
        Ok(Typed::new(kernel("ip_from_text", true, vec![call.text(0)?]), Type::Bytes))
    }),
    ("NET.IP_TO_STRING", |call| call.run("ip_text", 1, &[Type::Bytes], Type::String)),
    ("NET.IP_NET_MASK", |call| call.run("ip_mask", 2, &[Type::Int64, Type::Int64], Type::Bytes)),
    ("NET.IP_TRUNC", |call| call.run("ip_cut", 2, &[Type::Bytes, Type::Int64], Type::Bytes)),
    ("NET.IPV4_FROM_INT64", |call| call.run("ipv4_from_number", 1, &[Type::Int64], Type::Bytes)),
    ("NET.IPV4_TO_INT64", |call| call.run("ipv4_number", 1, &[Type::Bytes], Type::Int64)),
];

fn no_suffixes(call: &Call<'_>) -> Result<Typed> {
    let message = format!(
        "{} is not supported, because it needs the list of all public suffixes; NET.HOST gives the whole host",
        call.name
    );
    Err(fail(Code::Unsupported, message, call.at))
}

pub(super) const KERNELS: &[Entry] = &[
    Entry::new("net_host", Body::Text(host)),
    Entry::new(
        "ip_from_text",
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
    Entry::new(
        "ip_text",
        Body::Text(|row, out| {
            out.text(&address(row.bytes(0))?.to_string())?;
            Ok(Some(()))
        }),
    ),
    Entry::new(
        "ip_mask",
        Body::Bytes(|row, out| {
            let size = match row.int(0) {
                4 => 4,
                16 => 16,
                other => return Err(format!("an address has 4 or 16 bytes, not {other}").into()),
            };
            masked(&[0xff; 16], size, row.int(1), out)
        }),
    ),
    Entry::new(
        "ip_cut",
        Body::Bytes(|row, out| {
            address(row.bytes(0))?;
            masked(row.bytes(0), row.bytes(0).len(), row.int(1), out)
        }),
    ),
    Entry::new(
        "ipv4_from_number",
        Body::Bytes(|row, out| {
            let number = row.int(0);
            let bits = u32::try_from(number).ok().or_else(|| i32::try_from(number).ok().map(i32::cast_unsigned));
            let bits = bits.ok_or_else(|| format!("{number} is no IPv4 address"))?;
            out.bytes(&bits.to_be_bytes())?;
            Ok(Some(()))
        }),
    ),
    Entry::new(
        "ipv4_number",
        Body::Int(|row| match address(row.bytes(0))? {
            IpAddr::V4(ip) => Ok(Some(i64::from(ip.to_bits()))),
            IpAddr::V6(_) => Err("NET.IPV4_TO_INT64 takes an address of 4 bytes, not 16".into()),
        }),
    ),
];

fn address(bytes: &[u8]) -> std::result::Result<IpAddr, Bad> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Ok(IpAddr::V4(Ipv4Addr::from(bytes)));
    }
    let bytes =
        <[u8; 16]>::try_from(bytes).map_err(|_| format!("an address has 4 or 16 bytes, not {}", bytes.len()))?;
    Ok(IpAddr::V6(Ipv6Addr::from(bytes)))
}

/// The first `prefix` bits of an address, the others 0.
fn masked(bytes: &[u8], size: usize, prefix: i64, out: &mut Out) -> Made<()> {
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
fn host(row: &Row, out: &mut Out) -> Made<()> {
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
