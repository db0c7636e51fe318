//! Messages of the TOML and JSON deserializers about a value of the wrong type, in terms that authors of such files
//! know. They do not know `u64`, sequences or structs.

/// The value that was found: the beginning of the message of serde, and its replacement.
const GIVEN: [(&str, &str); 9] = [
    ("string ", "the text "),
    ("integer ", "the number "),
    ("floating point ", "the number "),
    ("boolean ", "the boolean "),
    ("sequence", "a list"),
    ("map", "a table of keys and values"),
    ("null", "null"),
    ("unit value", "nothing"),
    ("Option value", "nothing"),
];

/// The type that was expected, and its replacement.
const WANTED: [(&str, &str); 10] = [
    ("a string", "a text"),
    ("a borrowed string", "a text"),
    ("a boolean", "true or false"),
    ("a sequence", "a list"),
    ("a map", "a table of keys and values"),
    ("struct ", "a table of keys and values"),
    ("u", "a whole number from 0"),
    ("i", "a whole number"),
    ("f", "a number"),
    ("a tuple", "a list"),
];

/// The message in plain terms. A message that is not about a type is returned unchanged.
pub fn in_plain_words(told: &str) -> String {
    let parts = || {
        let at = told.find("invalid type: ").or_else(|| told.find("invalid value: "))?;
        let (before, told) = told.split_at_checked(at)?;
        let (_, told) = told.split_once(": ")?;
        let (given, wanted) = told.rsplit_once(", expected ")?;
        Some((before, given, wanted))
    };
    let Some((before, given, wanted)) = parts() else { return told.to_owned() };
    let given = match GIVEN.iter().find(|(word, _)| given.starts_with(word)) {
        Some((word, ours)) => given.replacen(word, ours, 1),
        None => given.to_owned(),
    };
    let is_number = |wanted: &str| wanted.len() < 6 && wanted.ends_with(|c: char| c.is_ascii_digit() || c == 'e');
    let fits = |word: &str| {
        if word.len() == 1 { is_number(wanted) && wanted.starts_with(word) } else { wanted.starts_with(word) }
    };
    let wanted = WANTED.iter().find(|(word, _)| fits(word)).map_or(wanted, |(_, ours)| ours);
    format!("{before}this is {given}, and must be {wanted}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_the_program_are_not_named() {
        for (told, ours) in [
            (
                "invalid type: string \"many\", expected u64",
                "this is the text \"many\", and must be a whole number from 0",
            ),
            (
                "invalid value: integer `-1`, expected usize",
                "this is the number `-1`, and must be a whole number from 0",
            ),
            ("invalid type: integer `5`, expected a string", "this is the number `5`, and must be a text"),
            ("invalid type: sequence, expected a map", "this is a list, and must be a table of keys and values"),
            (
                "invalid type: boolean `true`, expected struct Settings",
                "this is the boolean `true`, and must be a table of keys and values",
            ),
            (
                "invalid type: string \", expected u8\", expected a boolean",
                "this is the text \", expected u8\", and must be true or false",
            ),
            (
                "invalid type: floating point `1.5`, expected i64",
                "this is the number `1.5`, and must be a whole number",
            ),
            ("invalid type: map, expected a time", "this is a table of keys and values, and must be a time"),
            ("unknown field `nme`, expected `name`", "unknown field `nme`, expected `name`"),
        ] {
            assert_eq!(in_plain_words(told), ours);
        }
    }
}
