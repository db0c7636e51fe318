//! Statements and values with which an endpoint can be checked before anyone calls it.

use tidegate_model::{Arguments, Manifest, Parameter, Value};
use tidegate_sql::SavedQuery;

/// A statement for each granted table, that reads all of it.
pub(crate) fn granted_whole(saved: &SavedQuery) -> impl Iterator<Item = String> {
    saved.tables().into_iter().map(|table| format!("SELECT * FROM `{}`", table.replace('`', "\\`")))
}

/// Parameters that the saved query uses and the manifest does not declare are optional texts. Not so those of other
/// statements: only the component runs these, and it binds what the request does not.
pub(crate) fn declare_used(manifest: &mut Manifest, saved: &SavedQuery) {
    for name in saved.parameters() {
        if !manifest.parameters.iter().any(|parameter| parameter.name.eq_ignore_ascii_case(&name)) {
            manifest.parameters.push(Parameter { name, ..Parameter::default() });
        }
    }
}

/// Values with which a statement can be resolved before anyone calls it: defaults, the first
/// allowed value, else nothing.
pub(crate) fn example_arguments(manifest: &Manifest) -> Arguments {
    let example = |parameter: &Parameter| {
        let text = parameter.default.clone().or_else(|| parameter.allowed.first().cloned());
        text.and_then(|text| parameter.check(Some(&text)).ok()).unwrap_or(Value::Null)
    };
    manifest.parameters.iter().map(|parameter| (parameter.name.clone(), example(parameter))).collect()
}
