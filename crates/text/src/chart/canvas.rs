//! A plot of braille dots: each character has two dots side by side, four above each other
//! (Unicode U+2800 to U+28FF, which have a bit for each dot).

/// Columns of the labels of the vertical axis.
const LABEL_COLUMNS: usize = 9;
/// Columns that a plot leaves free of the width that it is given: labels, the axis, a margin.
const UNUSED_COLUMNS: usize = LABEL_COLUMNS + 6;
/// Fewest and most columns of a plot.
const COLUMNS: std::ops::RangeInclusive<usize> = 20..=120;
/// Dots of one character.
const DOTS_PER_COLUMN: usize = 2;
const DOTS_PER_ROW: usize = 4;
/// The braille pattern without any dots.
const BLANK: u32 = 0x2800;
/// The bits of the dots of a character: the left column, then the right one, each from the top.
const DOT_BITS: [[u32; DOTS_PER_ROW]; DOTS_PER_COLUMN] =
    [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

/// One character of the plot.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    dots: u32,
    mark: Option<char>,
}

impl Cell {
    fn character(self) -> char {
        match (self.mark, self.dots) {
            (Some(mark), _) => mark,
            (None, 0) => ' ',
            (None, dots) => char::from_u32(BLANK + dots).unwrap_or(' '),
        }
    }
}

/// What stands at the axes.
#[derive(Debug, Clone, Default)]
pub struct Axes {
    /// The largest value of the vertical axis, half of it, and the smallest.
    pub vertical: [String; 3],
    /// The smallest value of the horizontal axis, the middle, and the largest.
    pub horizontal: [String; 3],
}

/// A plot that is being drawn. Dots are counted from the left and from the bottom; those outside of
/// the plot are left out.
#[derive(Debug, Clone)]
pub struct Canvas {
    columns: usize,
    /// Rows of cells, the top one first.
    rows: Vec<Vec<Cell>>,
}

impl Canvas {
    /// An empty plot with as many columns as fit, with its labels, into lines of `width`.
    pub fn within(width: usize, rows: usize) -> Self {
        let columns = width.saturating_sub(UNUSED_COLUMNS).clamp(*COLUMNS.start(), *COLUMNS.end());
        Canvas { columns, rows: vec![vec![Cell::default(); columns]; rows] }
    }

    /// Characters of a line, labels left out.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Dots of a line.
    pub fn dots_wide(&self) -> usize {
        self.columns * DOTS_PER_COLUMN
    }

    /// Dots above each other.
    pub fn dots_high(&self) -> usize {
        self.rows.len() * DOTS_PER_ROW
    }

    /// The dot from the left at which a value of the horizontal axis stands that ends at `end`.
    pub fn x(&self, value: u64, end: u64) -> usize {
        let last = self.dots_wide().saturating_sub(1);
        let at = u128::from(value) * self.dots_wide() as u128 / u128::from(end.max(1));
        usize::try_from(at).map_or(last, |at| at.min(last))
    }

    /// The dot from the bottom at which a value of the vertical axis stands that ends at `top`.
    pub fn y(&self, value: u64, top: u64) -> usize {
        let last = self.dots_high().saturating_sub(1);
        let at = u128::from(value.min(top)) * last as u128 / u128::from(top.max(1));
        usize::try_from(at).map_or(last, |at| at.min(last))
    }

    /// Sets a dot.
    pub fn dot(&mut self, x: usize, y: usize) {
        let row = DOT_BITS.get(x % DOTS_PER_COLUMN);
        let bit = row.and_then(|row| row.iter().rev().nth(y % DOTS_PER_ROW)).copied();
        if let Some((cell, bit)) = self.cell(x, y).zip(bit) {
            cell.dots |= bit;
        }
    }

    /// Shows a character in place of the dots around this one.
    pub fn mark(&mut self, x: usize, y: usize, mark: char) {
        if let Some(cell) = self.cell(x, y) {
            cell.mark = Some(mark);
        }
    }

    fn cell(&mut self, x: usize, y: usize) -> Option<&mut Cell> {
        let row = self.rows.iter_mut().rev().nth(y / DOTS_PER_ROW)?;
        row.get_mut(x / DOTS_PER_COLUMN)
    }

    /// The lines of the plot, from the top, and one for the horizontal axis.
    pub fn lines(&self, axes: &Axes) -> Vec<String> {
        let [top, half, bottom] = &axes.vertical;
        let last = self.rows.len().saturating_sub(1);
        let label = |row: usize| match row {
            0 => top.as_str(),
            row if row == last => bottom,
            row if row == self.rows.len() / 2 => half,
            _ => "",
        };
        let mut lines: Vec<String> = self
            .rows
            .iter()
            .enumerate()
            .map(|(row, cells)| {
                let dots: String = cells.iter().map(|cell| cell.character()).collect();
                format!("{:>LABEL_COLUMNS$} ┤{}", label(row), dots.trim_end())
            })
            .collect();
        lines.push(self.horizontal_axis(&axes.horizontal));
        lines
    }

    fn horizontal_axis(&self, [start, middle, end]: &[String; 3]) -> String {
        let half = self.columns / 2;
        let width = self.columns.saturating_sub(end.chars().count());
        let labels: String = format!("{start:<half$}{middle:<half$}").chars().take(width).collect();
        format!("{:>LABEL_COLUMNS$}  {labels:<width$}{end}", "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> Axes {
        Axes {
            vertical: ["10 B", "5 B", "0 B"].map(String::from),
            horizontal: ["0 s", "1 s", "2 s"].map(String::from),
        }
    }

    #[test]
    fn a_diagonal_rises_from_corner_to_corner() {
        let mut canvas = Canvas::within(35, 5);
        assert_eq!((canvas.columns(), canvas.dots_wide(), canvas.dots_high()), (20, 40, 20));
        for x in 0..40 {
            canvas.dot(x, canvas.y(x as u64, 39));
        }
        canvas.mark(39, 0, 'R');
        assert_eq!(
            canvas.lines(&axes()),
            [
                "     10 B ┤                ⢀⡠⠔⠊",
                "          ┤            ⢀⡠⠔⠊⠁",
                "      5 B ┤        ⢀⡠⠔⠊⠁",
                "          ┤    ⢀⡠⠔⠊⠁",
                "      0 B ┤⣀⡠⠔⠊⠁              R",
                "           0 s       1 s    2 s",
            ]
        );
    }

    #[test]
    fn what_is_outside_of_the_plot_is_left_out() {
        let mut canvas = Canvas::within(0, 2);
        let ends = [(0, 0), (u64::MAX, u64::MAX), (7, 0)];
        for (x, y) in ends.map(|(value, end)| (canvas.x(value, end), canvas.y(value, end))) {
            canvas.dot(x, y);
            assert!(x < canvas.dots_wide() && y < canvas.dots_high());
        }
        canvas.dot(usize::MAX, 0);
        canvas.mark(0, usize::MAX, 'x');
        let lines = canvas.lines(&Axes::default());
        assert_eq!(lines.len(), 3);
        assert!(!lines.concat().contains('x'), "{lines:?}");
        assert!(Canvas::within(80, 0).lines(&axes()).len() == 1);
    }

    #[test]
    fn a_plot_fits_into_its_width() {
        for width in [40, 80, 200] {
            let canvas = Canvas::within(width, 3);
            assert!(canvas.columns() + LABEL_COLUMNS + 2 <= width);
            let widest = canvas.lines(&axes()).iter().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{widest:?} of {width}");
        }
        assert_eq!(Canvas::within(80, 3).columns(), 65);
    }
}
