"""Pulsar's broker.conf: how it is parsed and what its options do."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ledgermq.config import Settings, SettingsError, load_settings
from ledgermq.config.broker_conf import parse_broker_conf
from ledgermq.config.entry import Entry
from ledgermq.config.options import Option, options
from ledgermq.config.pulsar_options import find_option, names_without_effect

# Names, values and spacing as in the file that Pulsar 4 comes with.
EXCERPT = """\
### --- General broker settings --- ###

# Where the cluster keeps its metadata
metadataStoreUrl=
brokerServicePort=6650
brokerServicePortTls=
webServicePortTls=
clusterName=
backlogQuotaDefaultLimitBytes=1000000
backlogQuotaDefaultLimitSecond=-1
backlogQuotaDefaultRetentionPolicy=producer_request_hold
ttlDurationDefaultInSeconds=0
allowAutoTopicCreation=true
allowAutoTopicCreationType=non-partitioned
allowAutoSubscriptionCreation=true
defaultNumPartitions=1
brokerDeleteInactiveTopicsEnabled=true
brokerDeleteInactiveTopicsMaxInactiveDurationSeconds=
activeConsumerFailoverDelayTimeMillis=1000
subscriptionTypesEnabled=Exclusive,Shared,Failover,Key_Shared
subscriptionKeySharedUseConsistentHashing=true
brokerDeduplicationEnabled=false
maxUnackedMessagesPerConsumer=50000
maxUnackedMessagesPerSubscriptionOnBrokerBlocked=0.16
enableNonPersistentTopics=true
encryptionRequireOnProducer=false
maxMessageSize=5242880
delayedDeliveryEnabled=true
delayedDeliveryTickTimeMillis=1000
isDelayedDeliveryDeliverAtTimeStrict=false
acknowledgmentAtBatchIndexLevelEnabled=true
systemTopicEnabled=true
topicLevelPoliciesEnabled=true
tlsRequireTrustedClientCertOnConnect=false
tlsEnabledWithKeyStore=false
authenticationEnabled=false
authorizationEnabled=false
saslJaasClientAllowedIds=.*pulsar.*
httpMaxRequestHeaderSize = 8192
bookkeeper_tlsHostnameVerificationEnabled=false
managedLedgerMaxEntriesPerLedger=50000
managedLedgerMaxLedgerRolloverTimeMinutes=240
managedLedgerMaxSizePerLedgerMbytes=2048
loadBalancerAvgShedderLowThreshold = 15
defaultRetentionTimeInMinutes=0
defaultRetentionSizeInMB=0
backlogQuotaDefaultLimitGB=-1
tlsEnabled=false
"""


def load(directory: Path, text: str) -> Settings:
    file = directory / "broker.conf"
    file.write_text(text, encoding="utf-8")
    return load_settings(file=file, environ={})


def error_of(directory: Path, text: str) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        load(directory, text)
    return caught.value


def test_comments_and_blank_lines_are_no_entries_but_count_as_lines() -> None:
    assert parse_broker_conf("# a=1\n\n  ! b=2\nc=3\n") == [Entry("c", "3", 4)]


@pytest.mark.parametrize("text", ["a=b c", "a = b c ", "a:b c", "a b c", "  a\t=\tb c\r\n"])
def test_a_name_ends_at_an_equals_sign_a_colon_or_a_blank(text: str) -> None:
    assert parse_broker_conf(text) == [Entry("a", "b c", 1)]


def test_a_backslash_at_the_end_continues_a_line() -> None:
    assert parse_broker_conf("a=1,\\\n   2,\\\n #3\nb=4") == [
        Entry("a", "1,2,#3", 1),
        Entry("b", "4", 4),
    ]


def test_a_backslash_at_the_end_of_the_file_continues_nothing() -> None:
    assert parse_broker_conf("a=1\\") == [Entry("a", "1", 1)]


def test_an_escaped_backslash_at_the_end_does_not_continue_a_line() -> None:
    assert parse_broker_conf("a=1\\\\\nb=2") == [Entry("a", "1\\", 1), Entry("b", "2", 2)]


def test_escapes_are_those_of_java() -> None:
    assert parse_broker_conf(r"a\=b=x\ty\u0041\:") == [Entry("a=b", "x\tyA:", 1)]


def test_a_name_alone_has_a_blank_value() -> None:
    assert parse_broker_conf("a\nb=") == [Entry("a", "", 1), Entry("b", "", 2)]


def test_a_file_of_pulsar_is_accepted_as_it_stands(tmp_path: Path) -> None:
    assert load(tmp_path, EXCERPT) == Settings(
        backlog_quota_bytes_default=1_000_000,
        inactive_topic_deletion_enabled=True,
        failover_delay_ms=1_000,
        delayed_delivery_strict=False,
    )


def test_comments_in_any_encoding_are_accepted(tmp_path: Path) -> None:
    text = "# \N{GREEK SMALL LETTER ALPHA}\nmaxMessageSize=7"
    assert load(tmp_path, text).message_bytes_max == 7


def test_options_without_effect_are_counted_in_one_log_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="ledgermq.config"):
        load(tmp_path, "brokerServicePort=1\nclusterName=\nwebServicePort=2\ntokenSecretKey=abc\n")
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert "3 Pulsar options have no effect" in record.getMessage()
    assert "abc" not in str(record.__dict__)


@pytest.mark.parametrize(
    "option", [option for option in options() if option.pulsar_name], ids=lambda option: option.name
)
def test_an_option_can_be_given_by_the_name_of_pulsar(option: Option, tmp_path: Path) -> None:
    value: object = not option.default if isinstance(option.default, bool) else option.high
    text = str(option.choices[-1] if option.choices else value)
    settings = load(tmp_path, f"{option.pulsar_name}={text}")
    assert str(getattr(settings, option.name)) == text


def test_an_option_of_ours_is_accepted_beside_those_of_pulsar(tmp_path: Path) -> None:
    assert load(tmp_path, "seal_rows=9").seal_rows == 9


def test_the_later_of_two_entries_wins(tmp_path: Path) -> None:
    assert load(tmp_path, "maxMessageSize=7\nmaxMessageSize=8").message_bytes_max == 8


def test_a_blank_value_is_the_default_even_after_another(tmp_path: Path) -> None:
    assert load(tmp_path, "maxMessageSize=7\nmaxMessageSize=") == Settings()


def test_a_retention_of_minus_one_stays_infinite(tmp_path: Path) -> None:
    settings = load(tmp_path, "defaultRetentionTimeInMinutes=-1\ndefaultRetentionSizeInMB=-1")
    assert settings.retention_minutes_default == -1
    assert settings.retention_megabytes_default == -1


@pytest.mark.parametrize(
    ("text", "quota_bytes"),
    [
        ("backlogQuotaDefaultLimitGB=10", 10 * 2**30),
        ("backlogQuotaDefaultLimitGB=0.5", 2**29),
        ("backlogQuotaDefaultLimitGB=-1", -1),
        ("backlogQuotaDefaultLimitGB=", -1),
        ("backlogQuotaDefaultLimitBytes=5\nbacklogQuotaDefaultLimitGB=-1", 5),
        ("backlogQuotaDefaultLimitGB=1\nbacklogQuotaDefaultLimitBytes=5", 2**30),
    ],
)
def test_a_positive_quota_in_gigabytes_wins_over_one_in_bytes(
    text: str, quota_bytes: int, tmp_path: Path
) -> None:
    assert load(tmp_path, text).backlog_quota_bytes_default == quota_bytes


@pytest.mark.parametrize("value", ["many", "1e9999", "nan"])
def test_a_quota_in_gigabytes_must_be_a_number(value: str, tmp_path: Path) -> None:
    error = error_of(tmp_path, f"backlogQuotaDefaultLimitGB={value}")
    assert error.option == "backlogQuotaDefaultLimitGB"


@pytest.mark.parametrize(
    "entry",
    [
        "authenticationEnabled=true",
        "authenticationEnabled=yes",
        "authorizationEnabled=TRUE",
        "tlsEnabled=true",
        "tlsEnabledWithKeyStore=true",
        "tlsRequireTrustedClientCertOnConnect=true",
        "encryptionRequireOnProducer=true",
        "brokerServicePortTls=6651",
        "webServicePortTls=8443",
    ],
)
def test_an_option_that_asks_for_protection_is_refused(entry: str, tmp_path: Path) -> None:
    name, value = entry.split("=")
    error = error_of(tmp_path, f"\n{entry}")
    assert (error.option, error.line) == (name, 2)
    assert "Remove the option" in error.reason
    assert value not in error.reason


def test_a_mistyped_name_is_an_error_with_a_suggestion(tmp_path: Path) -> None:
    error = error_of(tmp_path, "# sizes\nmaxMesageSize=secret")
    expected = f"{tmp_path / 'broker.conf'}:2: maxMesageSize: unknown option; "
    assert str(error) == expected + "did you mean maxMessageSize?"


def test_a_name_like_no_other_is_an_error_without_a_suggestion(tmp_path: Path) -> None:
    assert error_of(tmp_path, "qqqq=1").reason == "unknown option"


@pytest.mark.parametrize("value", ["five", "5.0", "5_000", "true", "9" * 5_000])
def test_a_text_that_is_no_whole_number_is_an_error(value: str, tmp_path: Path) -> None:
    error = error_of(tmp_path, f"maxMessageSize={value}")
    assert error.reason.startswith("expected a whole number, not ")
    assert len(error.reason) < 100


def test_a_switch_is_true_or_false_and_nothing_else(tmp_path: Path) -> None:
    assert load(tmp_path, "brokerDeduplicationEnabled=True").deduplication_enabled
    error = error_of(tmp_path, "brokerDeduplicationEnabled=on")
    assert error.reason == "expected true or false, not 'on'"


def test_all_mistakes_of_a_file_are_reported_in_the_order_of_its_lines(tmp_path: Path) -> None:
    error = error_of(tmp_path, "maxMessageSize=0\nnoSuch=1\ndefaultNumPartitions=x")
    assert [problem.line for problem in error.problems] == [1, 2, 3]
    assert len(str(error).splitlines()) == 3


def test_the_names_without_effect_are_many_and_none_has_an_effect() -> None:
    names, prefixes = names_without_effect()
    assert len(names) >= 250
    assert all(name.isidentifier() for name in names)
    assert [name for name in names if find_option(name) is not None] == []
    assert prefixes == ("brokerClient_", "bookkeeper_")
