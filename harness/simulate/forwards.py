"""The host's forwards: blocks for the new tokens, microbatches, and what requests have afterwards."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from kvproof.harness.simulate.batch import Batch, Forward, make_batch
from kvproof.harness.simulate.operations import Decode, Prefill
from kvproof.harness.simulate.prefixes import Prefixes
from kvproof.harness.simulate.site import Site
from kvproof.harness.simulate.stamps import Keys
from kvproof.models.pool import blocks_of


class Forwards(Prefixes):
    """Chunks, and last tokens with drafts."""

    def prefill(self, op: Prefill) -> bool:
        """A forward of chunks."""
        ran = False
        for site in self.sites:
            chosen = self.groups_of(site, [name for name, _ in op.parts])
            if not chosen:
                continue
            picked = [number for number, _ in chosen]
            groups = np.array([group for _, group in chosen], np.int64)
            upto = np.minimum(np.array([op.parts[n][1] for n in picked], np.int64), site.known[groups])
            new = upto - site.done[groups]
            ran |= self.forward(site, "prefill", groups, new, new, 0, op.micro)
        return ran

    def decode(self, op: Decode) -> bool:
        """A forward of last tokens and drafts."""
        ran = False
        for site in self.sites:
            chosen = self.groups_of(site, [part[0] for part in op.parts])
            if not chosen:
                continue
            parts = np.array([op.parts[number] for number, _ in chosen], np.int64)
            groups = np.array([group for _, group in chosen], np.int64)
            ready = (site.done[groups] == site.known[groups] - 1) & (site.known[groups] < site.goal[groups])
            drafts = np.clip(parts[:, 1], 0, site.places.drafts)
            most = np.minimum(drafts, site.goal[groups] - site.known[groups] - 1)
            kept = np.clip(parts[:, 2], 0, most) + 1
            new = np.where(ready, drafts + 1, 0)
            ran |= self.forward(site, "decode", groups, new, kept, op.padding, op.micro)
        return ran

    def groups_of(self, site: Site, names: Sequence[int]) -> list[tuple[int, int]]:
        """(number of the part, group) of those requests that run here; each once."""
        found: dict[int, int] = {}
        where = self.where
        for number, name in enumerate(names):
            at = where.get(name)
            if at is not None and at[0] is site and at[1] not in found:
                found[at[1]] = number
        return [(number, group) for group, number in found.items()]

    def forward(
        self, site: Site, kind: Forward, groups: Keys, new: Keys, kept: Keys, padding: int, micro: int
    ) -> bool:
        """Run a forward of those sequences that have tokens, and blocks for them."""
        live = (new > 0) & self.reserve(site, groups, new)
        if not live.all():
            groups, new, kept = groups[live], new[live], kept[live]
        if not groups.size:
            return False
        micro = min(max(micro, 1), len(groups))
        cuts = [len(groups) * n // micro for n in range(micro + 1)]
        for first, stop in itertools.pairwise(cuts):
            self.run(site, kind, groups, new, kept, padding, slice(first, stop))
        self.request_steps += len(groups)
        self.note(kind, len(groups))
        if padding:
            self.note("padded")
        if micro > 1:
            self.note("microbatches")
        self.account(site, kind, groups, kept)
        self.note("rejected drafts", int((kept < new).sum()))
        return True

    def run(
        self,
        site: Site,
        kind: Forward,
        groups: Keys,
        new: Keys,
        kept: Keys,
        padding: int,
        part: slice,
    ) -> None:
        """One microbatch."""
        site.executor.run(site.memory, self.batch(site, kind, groups[part], new[part], kept[part], padding))

    def batch(self, site: Site, kind: Forward, groups: Keys, new: Keys, kept: Keys, padding: int) -> Batch:
        """What the executor gets."""
        return make_batch(
            kind,
            self.step,
            self.truth,
            names=site.names[groups],
            truth_rows=site.truth_rows[groups],
            slots=site.slots[groups],
            starts=site.done[groups],
            new=new,
            kept=kept,
            tables=site.tables[groups],
            padding=padding,
        )

    def reserve(self, site: Site, groups: Keys, new: Keys) -> Keys:
        """Take the blocks that the new tokens need. Which sequences have theirs."""
        need = self.blocks_needed(site, site.done[groups] + new)
        short = need - site.held[groups]
        enough = np.ones(len(groups), bool)
        for number in np.flatnonzero((short > 0) & (new > 0)):
            for _ in range(int(short[number])):
                if not self.take_block(site, int(groups[number])):
                    enough[number] = False
                    self.note("no block")
                    self.starved.add(site.number)
                    break
        return enough

    def blocks_needed(self, site: Site, tokens: Keys) -> Keys:
        """Blocks of requests of so many tokens."""
        return blocks_of(tokens, site.places.block)

    def take_block(self, site: Site, group: int) -> bool:
        """One more block for a request; an idle one of the prefix cache if none is free."""
        block = site.pool.take_block()
        if block is None and self.evict_blocks(site, 1):
            block = site.pool.take_block()
        if block is None:
            return False
        site.memory.grant_block(block, int(site.names[group]))
        site.tables[group, int(site.held[group])] = block
        site.held[group] += 1
        return True

    def account(self, site: Site, kind: Forward, groups: Keys, kept: Keys) -> None:
        """What the requests have after a forward: tokens, and full blocks for the prefix cache."""
        site.done[groups] += kept
        # Decode samples a token behind each one kept; prefill one behind the prompt.
        site.known[groups] += kept if kind == "decode" else site.done[groups] == site.known[groups]
        if not site.size.prefix_cache:
            return
        full = self.full_blocks(site, groups)
        for number in np.flatnonzero(full > site.hashed[groups]):
            self.offer(site, int(groups[number]), int(full[number]))

    def full_blocks(self, site: Site, groups: Keys) -> Keys:
        """Blocks whose every token is there to stay."""
        return site.done[groups] // site.places.block
