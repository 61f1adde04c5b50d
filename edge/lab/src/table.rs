//! The table of a matrix.

use crate::matrix::Row;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

/// Rows as text.
pub fn render(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    let head = ["rados bench", "ops/s", "MB/s", "mean ms", "p99 ms (OSD)", "max ms", "server µs/op", "machine µs/op"];
    table.set_header(head);
    for row in rows {
        table.add_row([
            row.name.clone(),
            format!("{:.0}", row.ops_per_second),
            figures(row.megabytes_per_second),
            figures(row.mean_ms),
            row.server_p99_ms.map_or("-".into(), figures),
            figures(row.longest_ms),
            figures(row.server_us),
            figures(row.machine_us),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// Three figures, as many as such a measurement is worth.
fn figures(x: f64) -> String {
    let decimals = match x.abs() {
        a if a >= 100.0 => 0,
        a if a >= 10.0 => 1,
        a if a >= 1.0 => 2,
        _ => 3,
    };
    format!("{x:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_its_column() {
        let row = Row {
            name: "write 4K x16".into(),
            ops_per_second: 12_345.6,
            megabytes_per_second: 50.567,
            mean_ms: 1.2345,
            server_p99_ms: None,
            longest_ms: 99.95,
            server_us: 15.55,
            machine_us: 123.4,
        };
        let text = render(&[row]);
        for part in ["write 4K x16", "12346", "50.6", "1.23", " - ", "100", "15.6", "123"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert_eq!(figures(0.01234), "0.012");
    }
}
