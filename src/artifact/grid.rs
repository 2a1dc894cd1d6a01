//! A table drawn with box characters: heavy header, light body, title centred above.

/// How a column's cells stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// A table to be drawn.
#[derive(Debug)]
pub(super) struct Grid {
    title: String,
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    pub(super) fn new(title: impl Into<String>, columns: &[(&str, Align)]) -> Self {
        Self {
            title: title.into(),
            columns: columns.iter().map(|(name, align)| ((*name).to_owned(), *align)).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; a cell may have several lines.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(cells);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Draws the table, at most `width` columns wide where wrapping the widest column can do that.
    pub(super) fn draw(&self, width: usize) -> String {
        let mut widths: Vec<usize> = self.columns.iter().map(|(name, _)| length(name)).collect();
        for row in &self.rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = cell.lines().map(length).chain([*widest]).max().unwrap_or(0);
            }
        }
        let whole = |widths: &[usize]| widths.iter().map(|width| width + 3).sum::<usize>() + 1;
        while whole(&widths) > width {
            // Narrower than this nothing can be read.
            let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > COLUMN_MIN) else { break };
            *widest -= 1;
        }
        let rule = |left: char, line: char, middle: char, right: char| {
            let cells: Vec<String> = widths.iter().map(|width| line.to_string().repeat(width + 2)).collect();
            format!("{left}{}{right}\n", cells.join(&middle.to_string()))
        };
        let mut drawn = String::new();
        let margin = whole(&widths).saturating_sub(length(&self.title)) / 2;
        drawn.push_str(&" ".repeat(margin));
        drawn.push_str(&self.title);
        drawn.push('\n');
        drawn.push_str(&rule('┏', '━', '┳', '┓'));
        let header: Vec<String> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        self.draw_row(&mut drawn, &header, &widths, '┃');
        drawn.push_str(&rule('┡', '━', '╇', '┩'));
        for row in &self.rows {
            self.draw_row(&mut drawn, row, &widths, '│');
        }
        drawn.push_str(&rule('└', '─', '┴', '┘'));
        drawn
    }

    fn draw_row(&self, drawn: &mut String, cells: &[String], widths: &[usize], bar: char) {
        let wrapped: Vec<Vec<String>> =
            cells.iter().zip(widths).map(|(cell, width)| wrap(cell, *width)).collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(1);
        for line in 0..height {
            for ((lines, width), (_, align)) in wrapped.iter().zip(widths).zip(&self.columns) {
                let text = lines.get(line).map_or("", String::as_str);
                let space = " ".repeat(width.saturating_sub(length(text)));
                drawn.push(bar);
                drawn.push(' ');
                match align {
                    Align::Left => drawn.extend([text, &space]),
                    Align::Right => drawn.extend([&space, text]),
                }
                drawn.push(' ');
            }
            drawn.push(bar);
            drawn.push('\n');
        }
    }
}

/// Columns are not drawn narrower than this to fit.
const COLUMN_MIN: usize = 4;

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Breaks a text into lines of at most `width` characters, between words where there are such. Control
/// characters of foreign texts do not reach the terminal.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            let mut word: String = word.chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
            if !line.is_empty() && length(&line) + 1 + length(&word) > width {
                lines.push(std::mem::take(&mut line));
            } else if !line.is_empty() {
                line.push(' ');
            }
            while length(&line) + length(&word) > width {
                let room = width - length(&line);
                let cut = word.char_indices().nth(room).map_or(word.len(), |(at, _)| at);
                line.push_str(&word[..cut]);
                lines.push(std::mem::take(&mut line));
                word.drain(..cut);
            }
            line.push_str(&word);
        }
        lines.push(line);
    }
    if lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_drawn_as_the_reference_draws_it() {
        let mut grid = Grid::new("Title", &[("Code", Align::Right), ("Message", Align::Left)]);
        grid.row(vec!["499".to_owned(), "Request cancelled".to_owned()]);
        let drawn = grid.draw(140);
        let expected = "           Title
┏━━━━━━┳━━━━━━━━━━━━━━━━━━━┓
┃ Code ┃ Message           ┃
┡━━━━━━╇━━━━━━━━━━━━━━━━━━━┩
│  499 │ Request cancelled │
└──────┴───────────────────┘
";
        assert_eq!(drawn, expected);
    }

    #[test]
    fn a_wide_column_is_wrapped_to_the_width() {
        let mut grid = Grid::new("T", &[("N", Align::Right), ("Message", Align::Left)]);
        grid.row(vec!["1".to_owned(), "word ".repeat(60)]);
        grid.row(vec!["2".to_owned(), "x".repeat(300)]);
        for line in grid.draw(60).lines() {
            assert!(length(line) <= 60, "{line}");
        }
    }

    #[test]
    fn wrapping_keeps_every_character_but_the_broken_blanks() {
        let text = "alpha beta gammagammagamma delta";
        let lines = wrap(text, 8);
        assert!(lines.iter().all(|line| length(line) <= 8), "{lines:?}");
        let kept: String = lines.concat().replace(' ', "");
        assert_eq!(kept, text.replace(' ', ""));
        assert_eq!(wrap("", 8), [""]);
        assert_eq!(wrap("a\u{1b}[31m", 20), ["a [31m"]);
    }
}
