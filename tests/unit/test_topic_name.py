"""Which names are topics, and what they mean."""

import pytest

from ledgermq.parquet_ledger import InvalidTopicName, TopicName


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("orders", "persistent://public/default/orders"),
        ("t/n/x", "persistent://t/n/x"),
        ("persistent://t/n/x", "persistent://t/n/x"),
        ("non-persistent://t/n/x", "non-persistent://t/n/x"),
        ("a.b-c=d:e_f", "persistent://public/default/a.b-c=d:e_f"),
        ('it\'s a "topic"; --', 'persistent://public/default/it\'s a "topic"; --'),
        ("größe", "persistent://public/default/größe"),
    ],
)
def test_a_name_means_one_full_name(name: str, full: str) -> None:
    assert str(TopicName.parse(name)) == full


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "\t",
        ".",
        "..",
        "a/b",
        "t/c/n/x",
        "a/../b",
        "../n/x",
        "t/./x",
        "t/n/",
        "t/n/..",
        "t/n/ ",
        "t//x",
        "/n/x",
        "t n/n/x",
        "tä/n/x",
        "persistent://",
        "persistent://orders",
        "persistent:///n/x",
        "persistent://t/c/n/x",
        "invalid://a/b/c",
        "://a/b/c",
        "Persistent://a/b/c",
        "a\\b",
        "a\x00b",
        "a\nb",
        "a\x7fb",
        "a\x85b",
        "a\x9bb",
        "a\u2028b",
        "a\ud800b",
        "x" * 300,
        "ä" * 128,
    ],
)
def test_a_name_that_can_not_be_a_topic_is_refused(name: str) -> None:
    with pytest.raises(InvalidTopicName):
        TopicName.parse(name)


def test_a_name_of_255_bytes_is_allowed() -> None:
    assert TopicName.parse("x" * 255).local == "x" * 255


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("orders", -1),
        ("orders-partition-3", 3),
        ("orders-partition-0", 0),
        ("orders-partition-10", 10),
        ("orders-partition-00", -1),
        ("orders-partition-03", -1),
        ("orders-partition-", -1),
        ("orders-partition--1", -1),
        ("orders-partition-3x", -1),
        ("-partition-3", -1),
        ("a-partition-1-partition-2", 2),
    ],
)
def test_a_partition_is_told_by_the_end_of_its_name(name: str, partition: int) -> None:
    assert TopicName.parse(name).partition == partition


def test_the_namespace_is_tenant_and_namespace() -> None:
    assert TopicName.parse("t/n/x").namespace_name == "t/n"


def test_names_that_mean_the_same_topic_are_equal() -> None:
    assert TopicName.parse("orders") == TopicName.parse("persistent://public/default/orders")
