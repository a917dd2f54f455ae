"""Durable subscriptions: what is acknowledged stays so, and the backlog is exact."""

import random

import pytest
from ledger_fixtures import (
    PLACES,
    OpenLedger,
    counted_backlog,
    fill_every_place,
    new,
    numbered,
    spans_of,
    table,
)

from ledgermq.parquet_ledger import (
    Backlog,
    InvalidMessage,
    Retention,
    Span,
    SubscriptionNotFound,
    Topic,
)


def test_a_subscription_starts_at_the_end_of_the_topic(orders: Topic) -> None:
    orders.append(new(numbered(5)))
    subscription = orders.subscribe("sub")
    assert (subscription.ack_floor(), subscription.backlog()) == (5, Backlog())


@pytest.mark.parametrize("start", [0, 3, 5])
def test_a_subscription_starts_where_it_is_told(orders: Topic, start: int) -> None:
    orders.append(new(numbered(5)))
    subscription = orders.subscribe("sub", start=start)
    assert (subscription.ack_floor(), subscription.backlog().messages) == (start, 5 - start)


@pytest.mark.parametrize("start", [-1, 6])
def test_a_start_outside_of_the_topic_is_refused(orders: Topic, start: int) -> None:
    orders.append(new(numbered(5)))
    with pytest.raises(InvalidMessage):
        orders.subscribe("sub", start=start)
    assert orders.subscriptions() == []


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 256])
def test_a_name_that_can_not_be_a_subscription_is_refused(orders: Topic, name: str) -> None:
    with pytest.raises(InvalidMessage):
        orders.subscribe(name)


def test_an_existing_subscription_keeps_its_place(orders: Topic) -> None:
    orders.append(new(numbered(5)))
    orders.subscribe("sub", start=0).acknowledge([Span(0, 2)])
    assert orders.subscribe("sub", start=4).ack_floor() == 2


def test_the_floor_is_the_first_unacknowledged_offset(orders: Topic) -> None:
    orders.append(new(numbered(10)))
    subscription = orders.subscribe("sub", start=0)
    floors = [subscription.acknowledge([span]) for span in (Span(2, 4), Span(0, 2), Span(5, 9))]
    assert floors == [0, 4, 4]


def test_acknowledging_beyond_the_end_is_refused_whole(orders: Topic) -> None:
    orders.append(new(numbered(5)))
    subscription = orders.subscribe("sub", start=0)
    with pytest.raises(InvalidMessage, match="offset 5"):
        subscription.acknowledge([Span(0, 2), Span(4, 6)])
    assert subscription.backlog().messages == 5


def test_subscriptions_do_not_see_each_others_acknowledgments(orders: Topic) -> None:
    orders.append(new(numbered(5)))
    one, two = orders.subscribe("one", start=0), orders.subscribe("two", start=0)
    one.acknowledge([Span(0, 5)])
    assert (one.backlog().messages, two.backlog().messages) == (0, 5)


def test_subscriptions_are_listed_by_name(orders: Topic) -> None:
    for name in ("b", "a", "c"):
        orders.subscribe(name)
    assert [subscription.name for subscription in orders.subscriptions()] == ["a", "b", "c"]


def test_a_deleted_subscription_is_gone(orders: Topic) -> None:
    orders.append(new(numbered(5)))
    subscription = orders.subscribe("sub", start=0)
    subscription.acknowledge([Span(1, 3)])
    subscription.delete()
    for use in (
        subscription.backlog,
        subscription.ack_floor,
        lambda: subscription.acknowledge([Span(0, 1)]),
        lambda: orders.subscription("sub"),
    ):
        with pytest.raises(SubscriptionNotFound):
            use()


def test_a_deleted_subscription_leaves_no_bitmaps_behind(orders: Topic) -> None:
    orders.append(new(numbered(5)))
    subscription = orders.subscribe("sub", start=0)
    subscription.acknowledge([Span(1, 3)])
    subscription.delete()
    with orders.ledger.catalog.read() as tx:
        assert tx.rows("acked_chunks", subscription.row.subscription_id, 0, 1 << 40) == []


def test_a_subscription_that_is_made_again_remembers_nothing(orders: Topic) -> None:
    orders.append(new(numbered(5)))
    old = orders.subscribe("sub", start=0)
    old.acknowledge([Span(1, 3)])
    old.delete()
    assert orders.subscribe("sub", start=0).backlog().messages == 5


def test_thirty_thousand_holes_survive_reopening_exactly(open_ledger: OpenLedger) -> None:
    topic = open_ledger().create_topic("orders")
    topic.append(new([b""] * 70_000))
    acked = [*range(1, 60_001, 2), *range(65_530, 65_545)]
    topic.subscribe("sub", start=0).acknowledge(spans_of(acked))
    topic.ledger.close()
    subscription = open_ledger().topic("orders").subscription("sub")
    assert (subscription.ack_floor(), subscription.backlog().messages) == (0, 70_000 - len(acked))
    # Filling any one hole joins exactly its neighbours.
    assert subscription.acknowledge([Span(0, 1)]) == 2
    assert subscription.acknowledge([Span(2, 59_998)]) == 59_998


@pytest.mark.parametrize("seed", range(12))
def test_the_backlog_is_exact_over_every_place(orders: Topic, seed: int) -> None:
    fill_every_place(orders)
    chance = random.Random(seed)
    subscription, acked = orders.subscribe("sub", start=0), set[int]()
    for _ in range(8):
        start = chance.randrange(PLACES)
        span = Span(start, min(PLACES, start + chance.choice([1, 2, 9, 25])))
        subscription.acknowledge([span])
        acked.update(range(span.start, span.end))
        assert subscription.backlog() == counted_backlog(orders.read_messages(), acked)


@pytest.mark.parametrize("seed", range(4))
def test_the_backlog_stays_the_same_when_the_tail_is_sealed(orders: Topic, seed: int) -> None:
    fill_every_place(orders)
    acked = random.Random(seed).sample(range(PLACES), 30)
    subscription = orders.subscribe("sub", start=0)
    subscription.acknowledge(spans_of(acked))
    before = subscription.backlog()
    orders.seal()
    assert subscription.backlog() == before == counted_backlog(orders.read_messages(), acked)


def test_the_backlog_grows_with_appends(orders: Topic) -> None:
    subscription = orders.subscribe("sub")
    orders.append(new([b"abc", b"de"], batch_sizes=[2]))
    orders.append_table(table([b"x"] * 12))
    assert subscription.backlog() == Backlog(messages=14, entries=13, bytes=17)


def three_segments(topic: Topic) -> None:
    """Make segments of the offsets 0 to 9, 10 to 19 and 20 to 29, and a tail of 30 to 39."""
    for i in range(3):
        topic.append(new(numbered(10, 10 * i)))
        topic.seal()
    topic.append(new(numbered(10, 30)))


def test_starting_at_the_earliest_after_the_front_went_starts_at_what_is_stored(
    orders: Topic,
) -> None:
    three_segments(orders)
    keeper = orders.subscribe("keeper", start=10)
    orders.retire(Retention())
    late = orders.subscribe("late", start=0)
    assert (late.ack_floor(), late.backlog()) == (10, keeper.backlog())


def test_starting_at_the_earliest_after_the_middle_went_skips_it(orders: Topic) -> None:
    three_segments(orders)
    orders.subscribe("keeper", start=0).acknowledge([Span(10, 20)])
    orders.retire(Retention())
    late = orders.subscribe("late", start=0)
    assert (late.ack_floor(), late.backlog().messages) == (0, 30)
    assert late.acknowledge([Span(0, 10)]) == 20
