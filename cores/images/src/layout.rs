//! Where an image's bytes are: stripes over sets of objects.
//!
//! An image is cut into units; `count` objects take one unit each in turn until they are full, then the next `count`
//! objects follow. Plain images have one unit as large as an object.

/// Units of an object, and objects that share a row, at most.
const MOST_ROWS: u64 = 1 << 16;
const MOST_COUNT: u64 = 1 << 20;

/// Layout of bytes over objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of an object; a power of two.
    pub object_size: u64,
    /// Bytes of a unit; divides the object's size.
    pub unit: u64,
    /// Objects that share a row of units.
    pub count: u64,
}

/// A part of an object, and of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Number of the object.
    pub object: u64,
    /// Place in the object.
    pub offset: u64,
    /// Place in the image.
    pub image: u64,
    /// Bytes.
    pub len: u64,
}

impl Layout {
    /// Objects of one unit each.
    pub fn plain(order: u8) -> Self {
        let object_size = 1 << order;
        Self { object_size, unit: object_size, count: 1 }
    }

    /// Objects of several units. `None` for what makes no sense, or would make an object of more pieces than anybody
    /// can use.
    pub fn striped(order: u8, unit: u64, count: u64) -> Option<Self> {
        let plain = Self::plain(order);
        let whole = unit > 0 && plain.object_size.is_multiple_of(unit) && plain.object_size / unit <= MOST_ROWS;
        (whole && (1..=MOST_COUNT).contains(&count)).then_some(Self { unit, count, ..plain })
    }

    /// Units that an object has room for.
    fn rows(&self) -> u64 {
        self.object_size / self.unit
    }

    /// Returns how many objects an image of so many bytes may have.
    pub fn objects(&self, size: u64) -> u64 {
        let set = self.object_size * self.count;
        let rest = size % set;
        // In a last set that is not full, objects without a single unit are not there.
        size / set * self.count + rest.div_ceil(self.unit).min(self.count)
    }

    /// The parts of an object in the order of their offsets, up to the image's byte `end`. Neighbours in both are one.
    pub fn of_object(&self, object: u64, end: u64) -> Vec<Extent> {
        let (set, column) = (object / self.count, object % self.count);
        let mut parts: Vec<Extent> = Vec::new();
        for row in 0..self.rows() {
            let image = ((set * self.rows() + row) * self.count + column) * self.unit;
            if image >= end {
                break;
            }
            let len = self.unit.min(end - image);
            match parts.last_mut() {
                Some(last) if last.image + last.len == image => last.len += len,
                _ => parts.push(Extent { object, offset: row * self.unit, image, len }),
            }
        }
        parts
    }

    /// The parts of objects that hold a part of the image, in the image's order.
    pub fn of_image(&self, image: u64, len: u64) -> Vec<Extent> {
        let mut parts: Vec<Extent> = Vec::new();
        let mut at = image;
        while at < image + len {
            let (unit, inside) = (at / self.unit, at % self.unit);
            let (row, column) = (unit / self.count, unit % self.count);
            let object = row / self.rows() * self.count + column;
            let offset = row % self.rows() * self.unit + inside;
            let n = (self.unit - inside).min(image + len - at);
            match parts.last_mut() {
                Some(last) if last.object == object && last.offset + last.len == offset => last.len += n,
                _ => parts.push(Extent { object, offset, image: at, len: n }),
            }
            at += n;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRIPED: Layout = Layout { object_size: 1 << 20, unit: 1 << 18, count: 3 };

    /// Returns where a byte is, by walking the units from the start.
    fn walk(layout: &Layout, byte: u64) -> (u64, u64) {
        let (mut set, mut row, mut column) = (0, 0, 0);
        for _ in 0..byte / layout.unit {
            column += 1;
            if column == layout.count {
                (column, row) = (0, row + 1);
            }
            if row == layout.rows() {
                (row, set) = (0, set + 1);
            }
        }
        (set * layout.count + column, row * layout.unit + byte % layout.unit)
    }

    #[test]
    fn bytes_are_where_the_stripes_lead() {
        for layout in [STRIPED, Layout::plain(20), Layout { object_size: 1 << 16, unit: 1 << 12, count: 16 }] {
            for byte in (0..9 << 20).step_by(77_777) {
                let part = layout.of_image(byte, 1)[0];
                assert_eq!((part.object, part.offset), walk(&layout, byte), "{layout:?} {byte}");
            }
        }
    }

    #[test]
    fn objects_and_image_are_two_views_of_the_same() {
        for layout in [STRIPED, Layout::plain(20)] {
            for size in [1, 1 << 18, (1 << 20) + 5, 7 << 20, (9 << 20) - 1] {
                let mut all: Vec<Extent> = (0..layout.objects(size)).flat_map(|o| layout.of_object(o, size)).collect();
                assert!(layout.of_object(layout.objects(size), size).is_empty());
                all.sort_by_key(|e| e.image);
                let mut at = 0;
                for part in &all {
                    assert_eq!(part.image, at);
                    assert_eq!(walk(&layout, part.image), (part.object, part.offset));
                    at += part.len;
                }
                assert_eq!(at, size, "{layout:?}");
                let parts = layout.of_image(0, size);
                assert_eq!(parts.iter().map(|e| e.len).sum::<u64>(), size);
            }
        }
    }

    #[test]
    fn stripes_that_make_no_sense_are_none() {
        assert_eq!(Layout::striped(20, 1 << 18, 3), Some(STRIPED));
        for (unit, count) in [(0, 1), (1 << 21, 1), (3 << 10, 1), (1, 1), (1 << 18, 0), (1 << 18, u64::MAX)] {
            assert_eq!(Layout::striped(20, unit, count), None, "{unit} {count}");
        }
        let widest = Layout::striped(25, 1 << 25, 1 << 20).unwrap();
        assert_eq!(widest.objects(1 << 60), 1 << 35);
    }

    #[test]
    fn plain_objects_are_one_part_each() {
        let layout = Layout::plain(22);
        assert_eq!(layout.objects((8 << 20) + 1), 3);
        assert_eq!(layout.of_object(2, (8 << 20) + 1), [Extent { object: 2, offset: 0, image: 8 << 20, len: 1 }]);
        let parts = layout.of_image((4 << 20) - 10, 20);
        assert_eq!(parts.len(), 2);
        assert_eq!((parts[0].offset, parts[1].offset), ((4 << 20) - 10, 0));
    }
}
