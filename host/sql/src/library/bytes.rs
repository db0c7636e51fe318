//! Bytes: hashes, and bytes as text.

use datafusion::logical_expr::{lit, when};

use super::call::{Builder, Call};
use crate::fail::{Planning, Result};
use crate::typed::Typed;
use crate::types::Type;
use crate::typing::kernel;

pub(super) const FUNCTIONS: &[(&str, Builder)] = &[
    ("MD5", |call| of_bytes(call, "md5_bytes", Type::Bytes)),
    ("SHA1", |call| of_bytes(call, "sha1_bytes", Type::Bytes)),
    ("SHA256", |call| of_bytes(call, "sha256_bytes", Type::Bytes)),
    ("SHA512", |call| of_bytes(call, "sha512_bytes", Type::Bytes)),
    ("FARM_FINGERPRINT", |call| of_bytes(call, "farm_fingerprint", Type::Int64)),
    ("HLL_COUNT.EXTRACT", |call| {
        call.count(1, 1)?;
        let sketch = call.typed(0, &Type::Bytes)?;
        let estimate = kernel("sketch_estimate", call.safe, vec![sketch.clone()]);
        Ok(Typed::new(when(sketch.is_null(), lit(0_i64)).otherwise(estimate).planned()?, Type::Int64))
    }),
    ("KLL_QUANTILES.EXTRACT_FLOAT64", |call| {
        let returns = Type::Array(Box::new(Type::Float64));
        call.run("sketch_quantiles_float64", 2, &[Type::Bytes, Type::Int64], returns)
    }),
    ("KLL_QUANTILES.EXTRACT_INT64", |call| {
        let returns = Type::Array(Box::new(Type::Int64));
        call.run("sketch_quantiles_int64", 2, &[Type::Bytes, Type::Int64], returns)
    }),
    ("KLL_QUANTILES.EXTRACT_POINT_FLOAT64", |call| {
        call.run("sketch_quantile_float64", 2, &[Type::Bytes, Type::Float64], Type::Float64)
    }),
    ("KLL_QUANTILES.EXTRACT_POINT_INT64", |call| {
        call.run("sketch_quantile_int64", 2, &[Type::Bytes, Type::Float64], Type::Int64)
    }),
    ("TO_HEX", |call| of_bytes(call, "to_hex", Type::String)),
    ("FROM_HEX", |call| call.run("from_hex", 1, &[Type::String], Type::Bytes)),
    ("TO_BASE64", |call| of_bytes(call, "to_base64", Type::String)),
    ("FROM_BASE64", |call| call.run("from_base64", 1, &[Type::String], Type::Bytes)),
    ("TO_BASE32", |call| of_bytes(call, "to_base32", Type::String)),
    ("FROM_BASE32", |call| call.run("from_base32", 1, &[Type::String], Type::Bytes)),
    ("SAFE_CONVERT_BYTES_TO_STRING", |call| of_bytes(call, "lossy_text", Type::String)),
];

/// A function of bytes; text stands for its bytes.
fn of_bytes(call: &Call<'_>, name: &'static str, ty: Type) -> Result<Typed> {
    call.count(1, 1)?;
    Ok(Typed::new(kernel(name, call.safe, vec![call.text_or_bytes(0)?.expr]), ty))
}
