"""Edits of references against their own document: what lowers the support, what does not, and stored values."""

from dataclasses import replace

import pandas as pd
import pytest

from ems.study.checks.document_check import edit_losses, edited_values
from ems.types import Triplet

CALL = """Revenue of {0} was $94.9 billion. Margins of {0} reached 46.2%. Deliveries of {0} grew 12% in the quarter.

Costs of {0} were $14.3 billion. We opened 52 stores for {0}. The board paid $0.25 a share to owners of {0}."""


@pytest.fixture
def triplets():
    """Seven companies, two questions each; every reference stands in its call word by word."""
    return [Triplet(f"{name}-{i}", name, "?", CALL.format(name), CALL.format(name))
            for name in ("shoes", "hats", "gloves", "belts", "coats", "scarves", "socks") for i in (1, 2)]


def test_wrong_numbers_lower_the_support_and_another_order_does_not(triplets, tmp_path):
    frame = edited_values(triplets, save=tmp_path / "edits.csv")
    assert set(frame["triplet_id"]) == {f"{t.group}-1" for t in triplets}              # one reference a company
    lost = edit_losses(frame).set_index("edit")
    assert (lost["support before"] == 1).all()
    assert lost.loc["change numbers", "ci_low"] > 0.3
    assert lost.loc["shuffle sentences", ["loss", "ci_low", "ci_high"]].tolist() == [0, 0, 0]
    assert lost.loc["change numbers", "harm"] == "worse"
    assert lost.loc["change numbers", "texts"] == 7
    # without the documents the stored values are shown, for these triplets alone
    without = [replace(t, context=None) for t in triplets]
    again = edited_values(without, stored=tmp_path / "edits.csv")
    pd.testing.assert_frame_equal(edit_losses(again), lost.reset_index(), atol=1e-5)
    assert edited_values([Triplet("x", "g", "?", "r")], stored=tmp_path / "edits.csv").empty


def test_without_documents_and_stored_values_there_is_nothing_to_show(tmp_path):
    frame = edited_values([Triplet("x", "g", "?", "r")], stored=tmp_path / "none.csv")
    assert edit_losses(frame).empty
