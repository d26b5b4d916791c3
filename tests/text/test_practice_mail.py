import numpy as np
import pytest
from scipy.stats import chi2_contingency

from dprepro.text import practice_mail
from dprepro.text.practice_mail import END, TEAMS, VOCABULARY, WORDS, draw_mail, token_rows


def table(texts, place):
    words = sorted({text.split()[place] for text in texts})
    return np.array(
        [
            [sum(t.split()[0] == team and t.split()[place] == w for t in texts) for w in words]
            for team in TEAMS
        ]
    )


def test_numbers_and_form():
    mail = draw_mail(np.random.default_rng(1), public=50, customers=7, each=3, test=11)
    assert [len(mail.public), len(mail.private), len(mail.test)] == [50, 21, 11]
    assert np.bincount(mail.customer).tolist() == [3] * 7
    assert (np.diff(mail.customer) >= 0).all()
    for text in [*mail.public, *mail.private, *mail.test]:
        team, thing, state, since, day = text.split()
        assert team in TEAMS
        assert since == "since"
        assert {thing, state, day} <= set(WORDS) - set(TEAMS)


def test_the_same_seed_draws_the_same_mail_and_another_another():
    one, again, other = (draw_mail(np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert one.private == again.private
    assert one.private != other.private


def test_lines_are_those_that_choice_draws_one_by_one():
    things, states = np.random.default_rng(6).dirichlet(np.full(24, 0.4), size=3), np.full((3, 12), 1 / 12)
    rng, teams = np.random.default_rng(7), len(TEAMS)
    drawn = [
        f"{TEAMS[team]} {rng.choice(practice_mail._THINGS, p=things[team])} "
        f"{rng.choice(practice_mail._STATES, p=states[team])} since {rng.choice(practice_mail._DAYS)}"
        for team in rng.integers(teams, size=200)
    ]
    assert practice_mail._lines(200, things, states, np.random.default_rng(7)) == drawn


@pytest.mark.parametrize("place", [1, 2])
def test_private_words_tell_the_team_and_public_ones_do_not(place):
    mail = draw_mail(np.random.default_rng(5))
    # Independence is rejected at any level for the private lines; for the public ones at 1 in 10,000 by chance.
    assert chi2_contingency(table(mail.private, place)).pvalue < 1e-12
    assert chi2_contingency(table(mail.public, place)).pvalue > 1e-4


def test_rows_give_the_words_back():
    texts = ["red printer broken since monday", "blue fee"]
    rows = token_rows(texts)
    assert [" ".join(WORDS[i - 1] for i in row[1:-1]) for row in rows] == texts
    assert all(row[0] == row[-1] == END for row in rows)
    assert max(max(row) for row in token_rows([" ".join(WORDS)])) == VOCABULARY - 1
    assert len(set(WORDS)) == len(WORDS)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rng: draw_mail(rng, public=0), "public"),
        (lambda rng: draw_mail(rng, customers=1.5), "customers"),
        (lambda rng: draw_mail(rng, each=0), "each"),
        (lambda rng: draw_mail(rng, test=-1), "test"),
        (lambda rng: token_rows("red printer"), "sequence of texts"),
        (lambda rng: token_rows(["red", "red Printer"]), "got 'Printer'"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(np.random.default_rng(0))
