//! YAML as JSON, which has all that a plan needs, and values as plans write them.

use anyhow::Result;
use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::{Map, Value};

/// The first document of a text.
///
/// # Errors
/// It is not YAML.
pub(super) fn read(text: &str) -> Result<Value> {
    let documents = Yaml::load_from_str(text).map_err(|e| anyhow::anyhow!("not YAML: {e}"))?;
    Ok(documents.first().map(value).unwrap_or_default())
}

fn value(yaml: &Yaml<'_>) -> Value {
    match yaml {
        Yaml::Value(Scalar::Boolean(b)) => Value::from(*b),
        Yaml::Value(Scalar::Integer(n)) => Value::from(*n),
        Yaml::Value(Scalar::FloatingPoint(x)) => Value::from(x.0),
        // Plans are read by Python's reader, to which this is a truth value, too.
        Yaml::Value(Scalar::String(t)) if t == "True" || t == "False" => Value::from(t == "True"),
        Yaml::Value(Scalar::String(t)) => Value::from(t.as_ref()),
        Yaml::Sequence(all) => all.iter().map(value).collect(),
        Yaml::Mapping(all) => {
            let key = |k: &Yaml<'_>| value(k).as_str().map_or_else(|| value(k).to_string(), str::to_owned);
            Value::Object(all.iter().map(|(k, v)| (key(k), value(v))).collect::<Map<_, _>>())
        }
        Yaml::Tagged(_, inner) => value(inner),
        _ => Value::Null,
    }
}

/// The entries of a table; none of what is no table.
pub(super) fn entries(table: &Value) -> Vec<(&String, &Value)> {
    table.as_object().into_iter().flatten().collect()
}

/// A list, or one value as a list of one.
pub(super) fn list(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(all) => all.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    }
}

/// The texts of a list.
pub(super) fn words(value: &Value) -> Vec<String> {
    list(value).iter().filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

/// A number, in quotes or not.
pub(super) fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok()).filter(|n: &f64| n.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_truths_may_be_written_as_python_reads_them() {
        let found = read("a: '5'\nb: 2.5\nc: True\nd: x\ne: [1, 2]\n").unwrap();
        assert_eq!((number(&found["a"]), number(&found["b"]), number(&found["d"])), (Some(5.0), Some(2.5), None));
        assert_eq!((found["c"].as_bool(), list(&found["e"]).len(), words(&found["d"])), (Some(true), 2, vec!["x".to_owned()]));
        assert!(entries(&found["d"]).is_empty());
    }
}
