//! Lists become permutations.

use super::{Point, Scalar};

/// Keys with their values, in the file's order.
pub type Listed = Vec<(String, Vec<Scalar>)>;

/// All combinations; the last key changes fastest.
pub fn points(listed: &Listed) -> Vec<Point> {
    let mut all = vec![Point::default()];
    for (key, values) in listed {
        let with = |point: &Point, value: &Scalar| {
            let mut point = point.clone();
            point.0.insert(key.clone(), value.clone());
            point
        };
        all = all.iter().flat_map(|point| values.iter().map(move |value| with(point, value))).collect();
    }
    all
}

/// Keys whose values differ between points, in the order of `keys`; a key that only some points have differs, too.
pub fn varying(points: &[&Point], keys: &[&str]) -> Vec<String> {
    let differs = |key: &&&str| points.iter().any(|p| p.0.get(**key) != points[0].0.get(**key));
    keys.iter().filter(differs).map(|k| (*k).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_key_changes_fastest() {
        let values = |texts: &[&str]| texts.iter().map(|t| Scalar::Text((*t).into())).collect::<Vec<_>>();
        let all = points(&vec![("a".into(), values(&["1", "2"])), ("b".into(), values(&["x", "y"]))]);
        let shown: Vec<String> = all.iter().map(|p| p.text("a") + &p.text("b")).collect();
        assert_eq!(shown, ["1x", "1y", "2x", "2y"]);
        let all: Vec<&Point> = all.iter().take(2).collect();
        assert_eq!(varying(&all, &["a", "b", "c"]), ["b"]);
    }
}
