//! Inputs that once did harm, and the inputs to begin with, do none.

use std::path::Path;

/// One test: the counted memory is the whole process's.
#[test]
fn kept_inputs_do_no_harm() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let targets = fuzz::all();
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    for path in files {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        if file.starts_with('.') || file == "README.md" {
            continue;
        }
        let target = targets.iter().filter(|t| file.starts_with(t.name)).max_by_key(|t| t.name.len());
        let target = target.unwrap_or_else(|| panic!("{file} names no target"));
        fuzz::judge(target, &std::fs::read(&path).unwrap()).unwrap_or_else(|why| panic!("{file}: {why}"));
    }
    for target in &targets {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{}", target.name);
        for seed in seeds.iter().take(200) {
            fuzz::judge(target, seed).unwrap_or_else(|why| panic!("{}: {why}", target.name));
        }
    }
}
