"""Messaging semantics: producers, consumers and subscriptions on top of the ledger."""
