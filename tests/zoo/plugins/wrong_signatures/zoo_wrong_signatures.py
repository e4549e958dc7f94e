from typing import ClassVar


class ZooScorer:
    api: ClassVar[int] = 3

    def adaptive(self):
        return False

    def sensitivity(self, schema):
        raise NotImplementedError

    def prepare(self, X, y):
        raise NotImplementedError
