"""The site of a history: static pages that open from disk, with no network and one shared chart library."""
