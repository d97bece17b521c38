"""NonMaxSuppression."""

from __future__ import annotations

import numpy as np

from .dtypes import Array, double, integer_of
from .mathematics import Function


def _corners(boxes: Array, center_point_box: int) -> Array:
    """[N, 4] as y1, x1, y2, x2 with y1 <= y2 and x1 <= x2."""
    if center_point_box:
        x, y, width, height = boxes.T
        return np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], axis=1)
    y1, x1, y2, x2 = boxes.T
    return np.stack([np.minimum(y1, y2), np.minimum(x1, x2), np.maximum(y1, y2), np.maximum(x1, x2)], axis=1)


def _overlap(box: Array, others: Array) -> Array:
    """Intersection over union of one box with others; 0 where both are empty."""
    height = np.minimum(box[2], others[:, 2]) - np.maximum(box[0], others[:, 0])
    width = np.minimum(box[3], others[:, 3]) - np.maximum(box[1], others[:, 1])
    shared = np.maximum(height, 0) * np.maximum(width, 0)
    area = (box[2] - box[0]) * (box[3] - box[1])
    areas = (others[:, 2] - others[:, 0]) * (others[:, 3] - others[:, 1])
    union = area + areas - shared
    return np.where(union > 0, shared / np.where(union > 0, union, 1.0), 0.0)


def non_max_suppression(
    boxes: Array,
    scores: Array,
    max_output_boxes_per_class: Array | None = None,
    iou_threshold: Array | None = None,
    score_threshold: Array | None = None,
    /,
    *,
    center_point_box: int = 0,
) -> Array:
    """[selected, 3] rows of batch, class and box; in a class by falling score, of equal scores the lower box first."""
    limit = 0 if max_output_boxes_per_class is None else integer_of(max_output_boxes_per_class)
    threshold = 0.0 if iou_threshold is None else float(double(iou_threshold).reshape(()))
    if not 0 <= threshold <= 1:
        raise ValueError(f"iou_threshold is {threshold}, and must be in [0, 1]")
    least = -np.inf if score_threshold is None else float(double(score_threshold).reshape(()))
    selected: list[tuple[int, int, int]] = []
    for batch in range(boxes.shape[0]):
        corners = _corners(double(boxes[batch]), center_point_box)
        for label in range(scores.shape[1]):
            values = double(scores[batch, label])
            left = np.argsort(-values, kind="stable")
            left = left[values[left] >= least]
            taken = 0
            while len(left) and taken < limit:
                best, left = left[0], left[1:]
                selected.append((batch, label, int(best)))
                taken += 1
                left = left[_overlap(corners[best], corners[left]) <= threshold]
    return np.array(selected, dtype=np.int64).reshape(-1, 3)


DETECTION: dict[str, Function] = {"NonMaxSuppression": non_max_suppression}
