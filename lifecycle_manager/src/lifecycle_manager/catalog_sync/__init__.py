"""The module catalog in each SKR: which modules its users may choose from, as ModuleTemplates and ModuleReleaseMetas.

`wanted` decides what a cluster is to see, once for all clusters that may see the same. `differences` compares that with
what is there, and `reconciler` carries it out. A cluster that is as it was left is told by the revisions of its objects
alone, which are kept as a fingerprint on its Kyma.
"""




__all__ = []
