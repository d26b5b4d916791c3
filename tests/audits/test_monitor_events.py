"""Events of outputs of every kind."""

import numpy as np

from dprepro.audits.monitor_events import Among, AnyOf, Reversed, count
from dprepro.mechanisms.events import Interval, OneOf


def test_unions_sets_and_reversals():
    both = AnyOf((Interval(high=-1), Interval(low=1)))
    assert both(np.array([-2.0, 0.0, 2.0])).tolist() == [True, False, True]
    assert str(both) == "(-inf, -1] or (1, inf)"
    rows = Among(frozenset({(0, 1, -1), (1, -1, -1)}))
    assert rows(np.array([[0, 1, -1], [0, 0, 1], [1, -1, -1]])).tolist() == [True, False, True]
    assert str(Among(frozenset("abcde\n"))) == "{'\\n', 'a', 'b', and 3 more}"
    assert Among(frozenset([None, "a"]))(["a", "b", None]).tolist() == [True, False, True]
    assert str(Reversed(both)) == "(-inf, -1] or (1, inf) under x'"
    assert count(Reversed(OneOf([1])), np.array([1, 1, 2]), np.array([1, 2, 2])) == (1, 2)
