from typing import ClassVar


class ZooScorer:
    api: ClassVar[int] = 2

    def adaptive(self):
        return False

    def sensitivity(self, schema):
        raise NotImplementedError

    def prepare(self, X, y):
        raise NotImplementedError
