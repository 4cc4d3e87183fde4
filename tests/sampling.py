"""Which of a test's cases a plain run takes (`@pytest.mark.one_in`)."""

from collections import defaultdict


def sample(cases, count, first):
    """The numbers of `count` cases, spread over all from the one numbered `first` on. Every value of a parameter that has at most `count` values is in one of them, for which there may be a few more.

    cases: for each, its parameters as (name, value)."""
    values = defaultdict(set)
    for case in cases:
        for name, value in case:
            values[name].add(value)
    missing = {(name, value) for name, of_name in values.items() if len(of_name) <= count for value in of_name}
    spread = [(first + i * len(cases) // count) % len(cases) for i in range(count)]
    order = list(dict.fromkeys([*spread, *range(len(cases))]))
    taken = []
    while missing or len(taken) < count:
        taken.append(max(order, key=lambda i: len(missing.intersection(cases[i]))))  # the first of equals
        order.remove(taken[-1])
        missing.difference_update(cases[taken[-1]])
    return set(taken)
