"""Functions that numpy lacks: erf, erfc and the normal distribution's quantile, on float64 arrays.

erf and erfc are the rational approximations of FreeBSD's msun (s_erf.c, below 1 ULP).
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from .dtypes import Array

_ERX = 8.45062911510467529297e-01
# numerator and denominator on |x| < 0.84375, in x**2, of (erf(x) - x) / x
_PP = (1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02,
       -5.77027029648944159157e-03, -2.37630166566501626084e-05)  # fmt: skip
_QQ = (1.0, 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03,
       1.32494738004321644526e-04, -3.96022827877536812320e-06)  # fmt: skip
# on 0.84375 <= |x| < 1.25, in |x| - 1, of erf(|x|) - erx
_PA = (-2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01,
       3.18346619901161753674e-01, -1.10894694282396677476e-01, 3.54783043256182359371e-02,
       -2.16637559486879084300e-03)  # fmt: skip
_QA = (1.0, 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02,
       1.26171219808761642112e-01, 1.36370839120290507362e-02, 1.19844998467991074170e-02)  # fmt: skip
# on 1.25 <= |x| < 1 / 0.35, in 1 / x**2, of log(|x| erfc(|x|) exp(x**2)) + 0.5625
_RA = (-9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e+01,
       -6.23753324503260060396e+01, -1.62396669462573470355e+02, -1.84605092906711035994e+02,
       -8.12874355063065934246e+01, -9.81432934416914548592e+00)  # fmt: skip
_SA = (1.0, 1.96512716674392571292e+01, 1.37657754143519042600e+02, 4.34565877475229228821e+02,
       6.45387271733267880336e+02, 4.29008140027567833386e+02, 1.08635005541779435134e+02,
       6.57024977031928170135e+00, -6.04244152148580987438e-02)  # fmt: skip
# the same beyond 1 / 0.35
_RB = (-9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e+01,
       -1.60636384855821916062e+02, -6.37566443368389627722e+02, -1.02509513161107724954e+03,
       -4.83519191608651397019e+02)  # fmt: skip
_SB = (1.0, 3.03380607434824582924e+01, 3.25792512996573918826e+02, 1.53672958608443695994e+03,
       3.19985821950859553908e+03, 2.55305040643316442583e+03, 4.74528541206955367215e+02,
       -2.24409524465858183362e+01)  # fmt: skip


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    result = np.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        result = result * x + c
    return result


def _tail(a: Array) -> Array:
    """erfc of a >= 1.25."""
    s = 1.0 / (a * a)
    ratio = np.where(a < 1 / 0.35, _polynomial(_RA, s) / _polynomial(_SA, s), _polynomial(_RB, s) / _polynomial(_SB, s))
    # exp(-a*a) loses digits for large a: split a*a into an exact square and the rest
    head = a.astype(np.float32).astype(np.float64)
    return np.exp(-head * head - 0.5625) * np.exp((head - a) * (head + a) + ratio) / a


def _pieces(x: Array) -> tuple[Array, Array, Array, Array]:
    """|x|, and erf(x) - x, erf(|x|) - erx and erfc(|x|) as they hold on their three intervals."""
    a = np.abs(x)
    square = np.minimum(a, 1.0) ** 2
    near = x * (_polynomial(_PP, square) / _polynomial(_QQ, square))
    t = np.clip(a, 0.5, 1.5) - 1.0
    middle = _polynomial(_PA, t) / _polynomial(_QA, t)
    return a, near, middle, _tail(np.clip(a, 1.25, 28.0))


def erf(x: Array) -> Array:
    """The error function of a float64 array."""
    a, near, middle, tail = _pieces(x)
    far = np.copysign(np.where(a < 1.25, _ERX + middle, 1.0 - tail), x)
    return np.where(np.isnan(x), x, np.where(a < 0.84375, x + near, far))


def erfc(x: Array) -> Array:
    """1 - erf(x) of a float64 array, without cancellation for large x."""
    a, near, middle, tail = _pieces(x)
    positive = np.where(a < 1.25, 1.0 - _ERX - middle, tail)
    far = np.where(x < 0, 2.0 - positive, positive)
    return np.where(np.isnan(x), x, np.where(a < 0.84375, 1.0 - (x + near), np.where(x > 28.0, 0.0, far)))


def normal_quantile(p: Array) -> Array:
    """The value below which a standard normal variable lies with probability `p`; infinite at 0 and 1, else NaN."""
    quantile = NormalDist().inv_cdf

    def of(value: float) -> float:
        if 0.0 < value < 1.0:
            return quantile(value)
        return {0.0: -np.inf, 1.0: np.inf}.get(value, np.nan)

    return np.array([of(float(v)) for v in p.reshape(-1)], dtype=np.float64).reshape(p.shape)
