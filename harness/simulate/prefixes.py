"""The host's prefix cache: full blocks shared by what they hold, and checkpoints at their ends."""

from __future__ import annotations

from kvproof.harness.simulate.host import Host
from kvproof.harness.simulate.site import Site
from kvproof.models.pool import ROOT, Key, chain


class Prefixes(Host):
    """Beginning at a cached prefix, offering blocks, evicting them."""

    def begin(self, site: Site, name: int, row: int, known: int, goal: int) -> int | None:
        """Give a request a slot and the longest cached prefix of its known tokens. Its group, or None."""
        group = site.pool.take_group()
        if group is None:
            self.note("no slot")
            return None
        self.take_slot(site, group, name)
        self.seat(site, group, name, row, known, goal)
        if site.size.prefix_cache:
            self.reuse_prefix(site, group)
        return group

    def reuse_prefix(self, site: Site, group: int) -> None:
        """Share the blocks of a cached prefix, and restore the window and state of its end."""
        keys = self.prefix_keys(site, group)
        found = site.cache.hit(keys)
        self.note("prefix hit" if found else "prefix miss")
        if not found:
            return
        for column, entry in enumerate(found):
            site.pool.retain(entry.block)
            site.tables[group, column] = entry.block
        site.held[group] = site.hashed[group] = len(found)
        site.chains[group] = keys[len(found) - 1]
        site.done[group] = len(found) * site.places.block
        image = found[-1].image
        assert image is not None
        self.restore(site, group, site.memory.image(image))

    def prefix_keys(self, site: Site, group: int) -> list[Key]:
        """Keys of the leading full blocks of a request's known tokens; its last token is always computed."""
        block, keys, key = site.places.block, list[Key](), ROOT
        for number in range((int(site.known[group]) - 1) // block):
            key = chain(key, self.truth.tokens(int(site.truth_rows[group]), number * block, (number + 1) * block))
            keys.append(key)
        return keys

    def offer(self, site: Site, group: int, full: int) -> None:
        """Enter a request's full blocks in the prefix cache, with a checkpoint if one ends right here."""
        block, row = site.places.block, int(site.truth_rows[group])
        for number in range(int(site.hashed[group]), full):
            key = self.block_key(site, group, row, number)
            site.chains[group] = key
            held = int(site.tables[group, number])
            if site.cache.insert(key, held):
                site.pool.retain(held)
                site.memory.share_block(held)
        site.hashed[group] = full
        if int(site.done[group]) == full * block:
            self.keep_checkpoint(site, group)

    def block_key(self, site: Site, group: int, row: int, number: int) -> Key:
        """Key of a request's next block."""
        block = site.places.block
        return chain(site.chains[group], self.truth.tokens(row, number * block, (number + 1) * block))

    def rehash(self, site: Site, group: int) -> None:
        """The chain of a request's full blocks, which the prefix cache may be offered again."""
        full = int(site.done[group]) // site.places.block
        row = int(site.truth_rows[group])
        for number in range(full):
            site.chains[group] = self.block_key(site, group, row, number)
        site.hashed[group] = full

    def keep_checkpoint(self, site: Site, group: int) -> None:
        """A checkpoint of a request's slot, which stands at a block's end."""
        key = site.chains[group]
        entry = site.cache.get(key)
        if entry is None or entry.image is not None or site.size.images < 1:
            return
        while len(site.images) >= site.size.images:
            self.drop_oldest_image(site)
        image = site.memory.new_image()
        site.executor.checkpoint(site.memory, int(site.slots[group]), image)
        site.cache.attach(key, image)
        site.images[image] = key
        self.note("checkpoint")

    def drop_oldest_image(self, site: Site) -> None:
        """Make room for a checkpoint: the oldest goes; its block can no longer end a hit."""
        image, key = next(iter(site.images.items()))
        entry = site.cache.get(key)
        if entry is not None:
            entry.image = None
        del site.images[image]
        site.memory.drop_image(image)

    def evict_blocks(self, site: Site, count: int) -> int:
        """Drop up to so many cached blocks that no request has, the least recently used first. How many went."""
        gone = 0
        for key in site.cache.by_age():
            if gone == count:
                break
            entry = site.cache.get(key)
            assert entry is not None
            if self.idle(site, entry.block):
                self.forget(site, key)
                gone += 1
        self.note("evicted", gone)
        return gone

    def idle(self, site: Site, block: int) -> bool:
        """Whether only the prefix cache refers to a block."""
        return site.pool.references[block] == 1

    def forget(self, site: Site, key: Key) -> None:
        """Drop a cached block and its checkpoint."""
        entry = site.cache.remove(key)
        if entry.image is not None:
            del site.images[entry.image]
            site.memory.drop_image(entry.image)
        self.release_block(site, entry.block)
