"""The joint exponential mechanism over sequences of k features, as a dpkit selector."""

from dpkit_selector_joint.joint import JointSelector as JointSelector

__all__ = ["JointSelector"]
