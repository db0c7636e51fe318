//! NET: hosts and addresses.

use tidegate_model::Code;

use super::call::{Builder, Call};
use super::kernel::kernel;
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
