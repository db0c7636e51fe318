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
