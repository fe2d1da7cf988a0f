"""Keys, envelopes and checkpoints."""

import json
from dataclasses import replace

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from fedaudit.ledger.statements import (
    Checkpoint,
    Envelope,
    PublicKey,
    SigningKey,
    pae,
    public_keys_in,
    subjects_hash,
)
from fedaudit.spec.canonical import canonical_json, read_canonical

KEY = SigningKey.generate()
CHECKPOINT = Checkpoint("e", "running", 7, 7, "a" * 64, "b" * 64, "c" * 64)


def test_the_encoding_is_that_of_the_dsse_specification():
    # The example of github.com/secure-systems-lab/dsse, protocol.md.
    kind = "http://example.com/HelloWorld"
    assert pae(kind, b"hello world") == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


def test_the_signature_is_that_of_rfc_8032():
    # RFC 8032, section 7.1, test 1: the empty message.
    der = bytes.fromhex("302e020100300506032b657004220420")
    secret = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    key = SigningKey(load_der_private_key(der + secret, None))
    assert key.public.raw.hex() == (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    )
    assert (
        key.sign(b"").hex().startswith("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522")
    )


def test_a_checkpoint_of_before_the_witness_was_said_is_read():
    older = replace(CHECKPOINT, witness=None).sign(KEY)
    assert b"witness" not in older.payload
    assert Checkpoint.of(older).witness is None
    assert b'"witness":"worker"' in CHECKPOINT.sign(KEY).payload


def test_a_checkpoint_comes_back_from_its_envelope():
    envelope = Envelope.from_dict(json.loads(json.dumps(CHECKPOINT.sign(KEY).as_dict())))
    assert Checkpoint.of(envelope) == CHECKPOINT
    assert KEY.public.verifies(envelope.signature, envelope.message)
    assert not KEY.public.verifies(envelope.signature, envelope.message + b" ")
    assert not SigningKey.generate().public.verifies(envelope.signature, envelope.message)


@pytest.mark.parametrize(
    "change",
    [
        {"payload": "!"},
        # Bits that belong to no byte, in characters above and below the right one.
        {"payload": "AB=="},
        {"payload": "A+=="},
        {"payload": 3},
        {"signatures": []},
        {"signatures": [{"keyid": "a", "sig": "AAAA"}]},
        {"signatures": [{"keyid": "a"}]},
        {"more": 1},
    ],
)
def test_what_is_no_envelope_is_refused(change):
    with pytest.raises(ValueError, match=r"is|has|must"):
        Envelope.from_dict({**CHECKPOINT.sign(KEY).as_dict(), **change})


@pytest.mark.parametrize(
    "change",
    [
        {"entries": "7"},
        {"entries": -1},
        {"status": "gone"},
        {"checkpoint_version": 2},
        {"witness": "nobody"},
        {"more": 1},
    ],
)
def test_what_is_no_checkpoint_is_refused(change):
    value = {**json.loads(CHECKPOINT.sign(KEY).payload), **change}
    envelope = Envelope.sign(CHECKPOINT.sign(KEY).payload_type, rfc8785.dumps(value), KEY)
    with pytest.raises(ValueError, match=r"is no|lacks"):
        Checkpoint.of(envelope)


@pytest.mark.parametrize("kind", ["application/a", "application/x"])
def test_a_checkpoint_of_another_kind_is_refused(kind):
    with pytest.raises(ValueError, match="payload type"):
        Checkpoint.of(Envelope.sign(kind, CHECKPOINT.sign(KEY).payload, KEY))


def test_a_payload_nested_to_any_depth_is_refused():
    """Some depths can be read but not written again; a forged bundle must not end verification."""
    kind, stated = CHECKPOINT.payload_type(), b'"entries":%d' % CHECKPOINT.entries
    for depth in range(900, 1100):
        nested = b'"entries":' + b"[" * depth + b"]" * depth
        payload = CHECKPOINT.sign(KEY).payload.replace(stated, nested)
        with pytest.raises(ValueError, match=r"is no checkpoint|no canonical JSON"):
            Checkpoint.of(Envelope.sign(kind, payload, KEY))


@pytest.mark.parametrize(
    ("canonical", "other"),
    [
        (b"{", b'{"entries":1,'),
        (b"{", b"\xef\xbb\xbf{"),
        (b"}", b"}\n"),
        (b"}", b""),
        (b"}", b"\xff}"),
        (b'"entries":%d' % CHECKPOINT.entries, b'"entries":%d.0' % CHECKPOINT.entries),
        (b'"entries":%d' % CHECKPOINT.entries, b'"entries":%de0' % CHECKPOINT.entries),
        (b'"running"', b'"\\u0072unning"'),
    ],
)
def test_a_signed_payload_has_one_form(canonical: bytes, other: bytes):
    """Readers understand other forms each in their own way."""
    payload = CHECKPOINT.sign(KEY).payload
    assert payload.count(canonical) == 1
    signed = Envelope.sign(CHECKPOINT.payload_type(), payload.replace(canonical, other), KEY)
    with pytest.raises(ValueError, match="a payload that is no canonical JSON"):
        Checkpoint.of(signed)


def test_large_floats_are_read_as_they_were_written():
    """Canonical JSON writes them like integers: those of a report must not look altered."""
    numbers = [2.0**53, 1e17, -1e20, 1e21, 2**53 - 1, 0.5]
    assert read_canonical(canonical_json(numbers)) == numbers
    assert list(map(type, read_canonical(canonical_json(numbers)))) == list(map(type, numbers))


def test_public_keys_are_read_from_pem_and_private_ones_refused():
    other = SigningKey.generate().public
    both = (KEY.public.pem + other.pem).encode()
    assert public_keys_in(both) == [KEY.public, other]
    assert PublicKey.from_pem(other.pem.encode()).key_id == other.key_id
    with pytest.raises(ValueError, match="private"):
        public_keys_in(b"-----BEGIN PRIVATE KEY-----")
    with pytest.raises(ValueError, match="no public key"):
        public_keys_in(b"hello")


@given(st.lists(st.text(max_size=8), max_size=5))
def test_the_hash_of_names_is_taken_over_canonical_json(names):
    import hashlib

    try:
        expected = hashlib.sha256(rfc8785.dumps(names)).hexdigest()
    except (ValueError, UnicodeError):
        with pytest.raises(ValueError, match="surrogates"):
            subjects_hash(names)
        return
    assert subjects_hash(names) == expected
