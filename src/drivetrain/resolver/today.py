"""Today's call for what old spellings said: one flag a decision, nothing that was said left out."""

from __future__ import annotations

from collections.abc import Mapping

from drivetrain.base.text import Code
from drivetrain.resolver.catalogue import Catalogue, facts_of, group_of
from drivetrain.resolver.spec import StrategySpec, holding
from drivetrain.resolver.swallowed import spell

ORDER = (
    "accelerator",
    "devices",
    "num_nodes",
    "strategy",
    "launcher",
    "environment",
    "precision",
    "plugins",
    "sync_batchnorm",
)
"""The flags in the order in which a call says them."""
_SINGULAR = {"precisions": "precision", "environments": "environment", "accelerators": "accelerator"}


def spelt_today(strategy: object, catalogue: Catalogue) -> dict[str, object]:
    """Return the flags that spell a strategy: ``ddp_spawn`` is ddp with a launcher."""
    spelt = spell(strategy, catalogue.strategies)
    if not spelt.members:
        return {"strategy": strategy}
    parts = strategy.parts if isinstance(strategy, StrategySpec) else {}
    return {"strategy": holding(StrategySpec.of(spelt.members), parts), **spelt.flags}


def flat(values: Mapping[str, object], catalogue: Catalogue) -> dict[str, object]:
    """Return a call's flags with what objects hold said by flags; a storage object goes to ``plugins``.

    A storage that is said by its name has no flag, and stays in the strategy's object.
    """
    today = dict(values)
    plugins = today.pop("plugins", None)
    items = [*plugins] if isinstance(plugins, (list, tuple)) else [] if plugins is None else [plugins]
    strategy = today.get("strategy")
    if isinstance(strategy, StrategySpec):
        storage = strategy.parts.get("checkpoint_io")
        today["strategy"] = str(strategy)
        if isinstance(storage, str):
            today["strategy"] = holding(strategy, {"checkpoint_io": storage})
        elif storage is not None:
            items.append(storage)
        today.update({flag: held for flag, held in strategy.parts.items() if flag != "checkpoint_io"})
    kept = []
    for item in items:
        flags = _named(item, catalogue)
        today.update(flags)
        kept += [] if flags else [_shipped_storage(item, catalogue)]
    named = {flag: _name_of(value, flag, catalogue) for flag, value in today.items()}
    named |= {"plugins": kept} if kept else {}
    places = {flag: place for place, flag in enumerate(ORDER)}
    return dict(sorted(named.items(), key=lambda item: places.get(item[0], len(places))))


def _named(item: object, catalogue: Catalogue) -> dict[str, object]:
    """Return the flag that says a shipped plug-in's facts; nothing for objects that do more than a name."""
    facts = facts_of(item)
    if facts is None or item is not facts:
        return {}
    group = group_of(facts)
    if getattr(catalogue, group).get(facts.name) is not facts:
        return {}
    if group == "layer_syncs" and facts.name == "batchnorm":
        return {"sync_batchnorm": True}
    return {_SINGULAR[group]: facts.name} if group in _SINGULAR else {}


def _name_of(value: object, flag: str, catalogue: Catalogue) -> object:
    found = _named(value, catalogue) if flag in _SINGULAR.values() else {}
    return found.get(flag, value)


def _shipped_storage(item: object, catalogue: Catalogue) -> object:
    facts = facts_of(item)
    if facts is None or item is not facts or catalogue.checkpoint_ios.get(facts.name) is not facts:
        return item
    return Code(f"dt.{facts.runtime.partition(':')[2]}()") if facts.runtime else item
