//! Which literals and types are decoded. A message says of some how many values they have; they are made before anything
//! counts their memory.

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::arrow::ipc::root_as_message;
use datafusion::error::Result;
use datafusion_proto_common::protobuf_common::scalar_value::Value;
use datafusion_proto_common::protobuf_common::{ArrowType, ScalarNestedValue, ScalarValue};

use crate::bounds::MAX_FIXED_BYTES;
use crate::error::refused;
use crate::ipc_check;

/// Checks a literal. Its depth is bounded by that of messages.
///
/// # Errors
/// If it says more of its length than it has bytes, or is of a type that may not be here.
pub(crate) fn literal(literal: &ScalarValue) -> Result<()> {
    match &literal.value {
        None => refused("a literal has no value"),
        Some(Value::NullValue(of)) => arrow_type(of),
        Some(
            Value::ListValue(of)
            | Value::FixedSizeListValue(of)
            | Value::LargeListValue(of)
            | Value::ListViewValue(of)
            | Value::LargeListViewValue(of)
            | Value::StructValue(of)
            | Value::MapValue(of),
        ) => nested(of),
        Some(Value::DictionaryValue(of)) => of.value.as_deref().map_or(Ok(()), self::literal),
        Some(Value::RunEndEncodedValue(of)) => of.value.as_deref().map_or(Ok(()), self::literal),
        Some(Value::UnionValue(of)) => of.value.as_deref().map_or(Ok(()), self::literal),
        Some(Value::FixedSizeBinaryValue(of)) if usize::try_from(of.length) != Ok(of.values.len()) => {
            refused("a literal has another length than its type")
        }
        Some(Value::FixedSizeBinaryValue(of)) => data_type(&DataType::FixedSizeBinary(of.length)),
        Some(_) => Ok(()),
    }
}

/// Checks a literal that is a batch in the format of Arrow IPC.
fn nested(literal: &ScalarNestedValue) -> Result<()> {
    let ScalarNestedValue { ipc_message, arrow_data, schema, dictionaries } = literal;
    if let Some(of) = schema {
        self::schema(&of.try_into()?)?;
    }
    let Ok(message) = root_as_message(ipc_message) else { return refused("a literal cannot be read") };
    let Some(batch) = message.header_as_record_batch() else { return refused("a literal cannot be read") };
    let wrong = |why| refused(format!("the values of a literal cannot be read: {why}"));
    ipc_check::bounded(batch, arrow_data.len()).or_else(wrong)?;
    for dictionary in dictionaries {
        let message = root_as_message(&dictionary.ipc_message).ok();
        let batch = message.and_then(|message| message.header_as_dictionary_batch()).and_then(|of| of.data());
        let Some(batch) = batch else { return refused("a literal cannot be read") };
        ipc_check::bounded(batch, dictionary.arrow_data.len()).or_else(wrong)?;
    }
    Ok(())
}

/// Checks the message of a type.
///
/// # Errors
/// If it may not be here.
pub(crate) fn arrow_type(of: &ArrowType) -> Result<()> {
    data_type(&of.try_into()?)
}

/// Checks the columns of an operator.
///
/// # Errors
/// If one is of a type that may not be here.
pub(crate) fn schema(schema: &Schema) -> Result<()> {
    schema.fields().iter().try_for_each(|field| data_type(field.data_type()))
}

/// Checks a type: one NULL of a type with a fixed length is as long as any other value.
///
/// # Errors
/// If it may not be here.
pub(crate) fn data_type(of: &DataType) -> Result<()> {
    match of {
        DataType::FixedSizeBinary(length) if !(0..=MAX_FIXED_BYTES).contains(length) => {
            refused("a type is longer than a value may be")
        }
        DataType::FixedSizeList(..) => refused("lists of a fixed length may not be here"),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::Map(item, _) => data_type(item.data_type()),
        DataType::Struct(fields) => fields.iter().try_for_each(|field| data_type(field.data_type())),
        DataType::Union(fields, _) => fields.iter().try_for_each(|(_, field)| data_type(field.data_type())),
        DataType::Dictionary(_, values) => data_type(values),
        DataType::RunEndEncoded(_, values) => data_type(values.data_type()),
        _ => Ok(()),
    }
}
