//! The columns of rows that workers send each other: a reader of a task knows its rows, and not its plan.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::error::Result;
use prost::Message;

use crate::error::refused;
use crate::literal_check;

/// Columns as bytes.
///
/// # Errors
/// If a type is not sent.
pub fn columns_to_bytes(columns: &Schema) -> Result<Vec<u8>> {
    let message: datafusion_proto::protobuf::Schema = columns.try_into()?;
    Ok(message.encode_to_vec())
}

/// Columns from bytes that anyone may have sent.
///
/// # Errors
/// If they are none that may be sent.
pub fn columns_from_bytes(bytes: &[u8]) -> Result<SchemaRef> {
    let Ok(message) = datafusion_proto::protobuf::Schema::decode(bytes) else {
        return refused("the columns of rows cannot be read");
    };
    let columns = Schema::try_from(&message)?;
    literal_check::schema(&columns)?;
    Ok(Arc::new(columns))
}
