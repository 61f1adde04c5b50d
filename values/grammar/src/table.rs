//! Tables of text: columns two blanks apart; each cell is padded to its column's width, also the last one.

/// The side of its column on which a text is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// On the left.
    Left,
    /// On the right.
    Right,
}
use Align::{Left, Right};

/// A table that is filled row by row.
#[derive(Debug, Default)]
pub struct Table {
    columns: Vec<(String, Align, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Makes a table with these columns: heading, the heading's side, the cells' side.
    pub fn new(columns: &[(&str, Align, Align)]) -> Self {
        Self { columns: columns.iter().map(|(h, a, b)| ((*h).to_string(), *a, *b)).collect(), rows: Vec::new() }
    }

    /// Makes a table whose headings and cells are on the same side: names that begin with `>` on the right.
    pub fn simple(columns: &[&str]) -> Self {
        let column = |h: &&str| match h.strip_prefix('>') {
            Some(h) => (h.to_string(), Right, Right),
            None => (h.to_string(), Left, Left),
        };
        Self { columns: columns.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Adds a row. Missing cells at its end are empty. A cell is one line, whatever it says.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.iter().map(|cell| crate::one_line(cell)).collect());
    }

    /// Gives the text; each line is ended.
    pub fn render(&self) -> String {
        let width = |i: usize| {
            let cells = self.rows.iter().filter_map(|r| r.get(i)).map(|c| c.chars().count());
            cells.chain([self.columns[i].0.chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut out = String::new();
        let mut line = |cell: &dyn Fn(usize) -> (String, Align)| {
            let cells = (0..widths.len()).map(|i| match cell(i) {
                (text, Left) => format!("{text:<0$}", widths[i]),
                (text, Right) => format!("{text:>0$}", widths[i]),
            });
            out.push_str(&cells.collect::<Vec<_>>().join("  "));
            out.push('\n');
        };
        line(&|i| (self.columns[i].0.clone(), self.columns[i].1));
        for row in &self.rows {
            line(&|i| (row.get(i).cloned().unwrap_or_default(), self.columns[i].2));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_padded_to_their_side() {
        let mut t = Table::new(&[("ID", Left, Right), ("NAME", Left, Left)]);
        t.row(vec!["-10".into(), "a".into()]);
        t.row(vec!["1".into()]);
        assert_eq!(t.render(), "ID   NAME\n-10  a   \n  1      \n");
    }
}
