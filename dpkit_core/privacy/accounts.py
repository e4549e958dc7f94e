r"""An account for every record: who takes part in which round, so that none spends more than was planned.

A round adds up vectors of whole numbers, one a record, over a Poisson sample, and adds Gaussian noise
(``dpkit_core.mechanisms.sums``). What it costs a record x of contribution c(x) is decided by one number, its
*precision*

    p(x) = sum over coordinates j of c_j(x)^2 / deviation_j^2,

the inverse square of the noise multiplier that the noise is for this record.

*The filter.* ``charged`` rounds are paid for, each as if every record had the largest precision p' that the
event of one round allows; more rounds than that may be drawn. A record takes part in the next round if and
only if its precision there is at most p' and the sum of its precisions in the rounds in which it took part,
this one included, is at most ``charged`` p'. Who takes part is charged, whether or not the coins of the
sample take it; who does not is not, and may take part again when its contribution is smaller.

Claim
-----
Under add-remove, rounds of any number have in both directions and at every order a > 1 at most the
divergence of ``charged`` rounds of the event, ``charged`` B_a(p').

*1. One round.* Let N be the law of the noise, N_c that of the noise moved by c = c(x), r the rate of the
sample and M = (1 - r) N + r N_c. The rounds with and without x have divergences of at most D_a(M || N), in
both directions, and for every whole order

    (a - 1) D_a(M || N) <= log sum_k C(a, k) (1 - r)^(a - k) r^k exp(k (k - 1) p(x) / 2) =: (a - 1) B_a(p).

For the sample S of all others has one law with and without x, and does not depend on whether x is taken. The
rounds are mixtures over S of (1 - r) N_s + r N_{s + c} and of N_s, s the sum over S; exp((a - 1) D_a) is
jointly convex in its pair, and moving both by -s, which maps whole numbers to whole numbers, leaves M against
N. As for the other direction, let f = N_c / N, u = 1 - r + r f = M / N and v = 1 - r + r / f. Reflection in c
/ 2 swaps N and N_c, for the discrete Gaussian as well since c is whole, so E_N[h(f)] = E_N[f h(1 / f)] for
every h, and

    2 (E_N[u^a] - E_N[u^(1-a)]) = E_N[(u^a - u^(1-a)) + f (v^a - v^(1-a))].

Where f >= 1 (else exchange the roles of u and v) put X = log u, Y = -log v, b = a - 1/2: the bracket is 2
sqrt(u) sinh(b X) - 2 f sqrt(v) sinh(b Y). Both X and Y are at least 0; u v = (1-r)^2 + r^2 + r (1-r) (f + 1 /
f) >= 1 says X >= Y; so sinh(b X) / sinh(b Y) does not fall in b, and at b = 1/2, the order a = 1, the bracket
is exactly 0. Hence it is never negative: D_a(N || M) <= D_a(M || N). (Mironov, Talwar and Zhang 2019, Theorem
5, for smooth densities.) The sum is the binomial expansion of E_N[u^a] with E_N[f^k] <= exp(k (k - 1) p / 2)
(Canonne, Kamath and Steinke 2020, Theorem 4, coordinate by coordinate).

*2. One account serves every order.* (a - 1) B_a is a logarithm of a sum of exponentials of linear functions
of p, hence convex in p, and 0 at p = 0. So

    B_a(p) <= (p / p') B_a(p')     for 0 <= p <= p':                                                     (*)

a record of half the precision costs at most half, at every whole order at once. (For continuous noise, at
every real order: v(p, x) = log E[(1 - r + r e^(x + W_p - p/2))^a], W Brownian, is (a - 1) D_a at x = 0, and
by the maximum principle v_pp >= 0, since v_pp >= 0 at p = 0 and solves a linear parabolic equation with the
source v_xp^2.)

*3. Rounds.* Let x be the record in which two worlds differ, and let all contributions be functions of one
record and of what was released before. Given the outcome h of the rounds before, all others take part in both
worlds or in neither, contribute the same and have samples of the same law; whether x takes part, and with
which precision p_t, is a function of x and h. So the conditional laws of round t have divergence at most
B_a(p_t), p_t = 0 where x takes no part or has not come yet, whatever the order of arrival. With R_t the
likelihood ratio of round t given h,

    E[ prod_{s <= t} R_s^a exp((a - 1) (charged B_a(p') - sum_{s <= t} B_a(p_s))) ]

does not grow in t, because E[R_t^a | h] <= exp((a - 1) B_a(p_t)) and p_t is known from h. It begins as
exp((a - 1) charged B_a(p')). Its last term is at least E[prod R^a], because sum B_a(p_t) <= charged B_a(p')
on every path, by (*). Other orders follow for the total as chords (``dpkit_core.privacy.renyi``). [] (Feldman
and Zrnic 2021 for one order and without sampling.)

Without sampling this is the filter of Gaussian differential privacy as well: squared sensitivities over
squared deviations that add up to at most charged p' are sqrt(charged p')-GDP (Koskela, Tobaben and Honkela
2023).

Where several parties repeat an attempt, each is a round, with coins of its own, and is charged.

A record that is in two batches has two accounts: the guarantee is for records, not for the people behind.

*Arithmetic.* Accounts are whole numbers of ticks, 2^32 to p', every cost rounded up: sums are exact and do
not depend on their order.

*Never released*: accounts, who takes part, how many do. Nothing may stop or change because none do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpkit_core.arrays import Booleans, Integers

if TYPE_CHECKING:
    from dpkit_core.privacy.events import Filtered


#: Ticks of a round of the largest precision.
TICKS = 2**32

#: This many rounds of the largest precision, and one more, fit into 64 bits.
MOST_CHARGED = 2**28


def limit_of(event: Filtered) -> int:
    """Return what an account may hold, in ticks."""
    if event.charged > MOST_CHARGED:
        raise ValueError(f"charged is {event.charged}; accounts hold 2^28 rounds at most")
    return event.charged * TICKS


def admitted(spent: Integers, costs: Integers, limit: int) -> tuple[Booleans, Integers]:
    """Return which records take part in a round, and what each has spent after it.

    Parameters
    ----------
    spent
        Of each record's account, in ticks.
    costs
        Of the round, in ticks, at least 0. A record that would cost more than ``TICKS``, what the event
        allows, takes no part: (*) does not cover it.
    limit
        What an account may hold.

    Examples
    --------
    >>> spent, costs = np.zeros(2, np.int64), np.array([TICKS, TICKS // 2])
    >>> for _ in range(5):
    ...     active, spent = admitted(spent, costs, 2 * TICKS)
    ...     print(active.tolist())
    [True, True]
    [True, True]
    [False, True]
    [False, True]
    [False, False]
    """
    bounded = np.minimum(costs, TICKS + 1)
    after = spent + bounded
    active: Booleans = (bounded <= TICKS) & (after <= limit)
    return active, np.where(active, after, spent)
