//! Places for labels that cover neither one another nor what is drawn.

/// Left, top, right and bottom in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Box {
    pub left: i32,
    pub top: i32,
    pub right: i32,
    pub bottom: i32,
}

impl Box {
    /// Whether two boxes have a point in common.
    pub fn meets(&self, other: &Box) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    fn is_inside(&self, other: &Box) -> bool {
        self.left >= other.left
            && self.right <= other.right
            && self.top >= other.top
            && self.bottom <= other.bottom
    }

    /// The box of two opposite corners.
    pub fn spanning(a: (i32, i32), b: (i32, i32)) -> Box {
        Box {
            left: a.0.min(b.0),
            top: a.1.min(b.1),
            right: a.0.max(b.0) + 1,
            bottom: a.1.max(b.1) + 1,
        }
    }

    /// The point of the box that is nearest to another.
    pub fn nearest(&self, (x, y): (i32, i32)) -> (i32, i32) {
        (x.clamp(self.left, self.right), y.clamp(self.top, self.bottom))
    }

    /// The box around a point.
    pub fn around((x, y): (i32, i32), radius: i32) -> Box {
        Box { left: x - radius, top: y - radius, right: x + radius, bottom: y + radius }
    }
}

/// Directions in which a label may lie from its point, the best first, in sixteenths of a full turn from the right
/// downwards.
const DIRECTIONS: [i32; 16] = [0, 15, 1, 14, 2, 3, 13, 4, 12, 5, 11, 8, 7, 9, 6, 10];
/// Those of them in which lines to several labels do not cross one another.
const SIDEWAYS: [i32; 6] = [0, 1, 15, 8, 7, 9];
/// Distances of a label from its point in pixels.
pub(super) const NEAREST: i32 = 10;
const FARTHEST: i32 = 150;
const STEP: i32 = 10;

/// The place for a label of a size beside a point: inside the frame, clear of what is taken, as near as can be. Where
/// nothing is clear, the nearest place to the right. Labels of several points go to the side.
pub(super) fn place(
    point: (i32, i32),
    size: (i32, i32),
    several: bool,
    frame: &Box,
    taken: &[Box],
) -> Box {
    let directions = if several { &SIDEWAYS[..] } else { &DIRECTIONS[..] };
    let mut distance = if several { 2 * NEAREST } else { NEAREST };
    while distance <= FARTHEST {
        for &direction in directions {
            let candidate = at(point, size, direction, distance);
            if candidate.is_inside(frame) && !taken.iter().any(|other| candidate.meets(other)) {
                return candidate;
            }
        }
        distance += STEP;
    }
    at(point, size, DIRECTIONS[0], NEAREST)
}

/// Points too close together for labels of their own: their indices, the uppermost point first.
pub(super) fn clusters(points: &[(i32, i32)]) -> Vec<Vec<usize>> {
    const NEAR: (i32, i32) = (24, 16);
    let near = |a: usize, b: usize| {
        let ((ax, ay), (bx, by)) = (points[a], points[b]);
        (ax - bx).abs() <= NEAR.0 && (ay - by).abs() <= NEAR.1
    };
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|&index| points[index].1);
    let mut clusters: Vec<Vec<usize>> = Vec::new();
    for index in order {
        // One point may join clusters that were apart.
        let (joined, apart): (Vec<_>, Vec<_>) = clusters
            .into_iter()
            .partition(|cluster| cluster.iter().any(|&other| near(index, other)));
        clusters = apart;
        let mut cluster: Vec<usize> = joined.into_iter().flatten().collect();
        cluster.sort_by_key(|&index| points[index].1);
        cluster.push(index);
        clusters.push(cluster);
    }
    clusters
}

/// The box whose nearest side or corner lies in a direction at a distance.
fn at((x, y): (i32, i32), (width, height): (i32, i32), direction: i32, distance: i32) -> Box {
    let angle = f64::from(direction) * std::f64::consts::TAU / 16.0;
    let (across, down) = (angle.cos(), angle.sin());
    let shift = |part: f64, extent: i32| {
        // The box lies beside the point, above it, or between.
        (part * f64::from(distance) + (part - 1.0) * f64::from(extent) / 2.0).round() as i32
    };
    let (left, top) = (x + shift(across, width), y + shift(down, height));
    Box { left, top, right: left + width, bottom: top + height }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Box = Box { left: 0, top: 0, right: 300, bottom: 200 };
    const SIZE: (i32, i32) = (60, 14);

    #[test]
    fn a_lone_label_is_to_the_right_and_clear_of_its_point() {
        let label = place((100, 100), SIZE, false, &FRAME, &[]);
        assert_eq!(label, Box { left: 110, top: 93, right: 170, bottom: 107 });
    }

    #[test]
    fn labels_of_near_points_do_not_meet() {
        let points = [(100, 100), (102, 101), (104, 99), (100, 103), (101, 98)];
        let mut taken: Vec<Box> = points.map(|point| Box::around(point, 5)).to_vec();
        for point in points {
            let label = place(point, SIZE, false, &FRAME, &taken);
            assert!(!taken.iter().any(|other| label.meets(other)), "{label:?} in {taken:?}");
            assert!(label.is_inside(&FRAME), "{label:?}");
            taken.push(label);
        }
    }

    #[test]
    fn a_label_stays_in_the_frame() {
        let label = place((295, 5), SIZE, true, &FRAME, &[]);
        assert!(label.is_inside(&FRAME), "{label:?}");
    }

    #[test]
    fn near_points_cluster_from_above() {
        let points = [(100, 100), (200, 100), (100, 124), (102, 112), (300, 50)];
        let mut clusters = clusters(&points);
        clusters.sort();
        assert_eq!(clusters, [vec![0, 3, 2], vec![1], vec![4]]);
    }
}
