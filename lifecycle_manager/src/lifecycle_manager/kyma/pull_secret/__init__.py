"""The image pull Secret of an SKR: a copy of that of KCP, which the Pods of modules and of the Watcher name.

Another version in KCP reaches every SKR at once; what others do to a copy is corrected at the interval. The copy is the
Lifecycle Manager's own: whatever has its name in kyma-system is overwritten, and replaced where a field of it may not
be changed. An SKR that refuses it keeps its modules; its Kyma says why. The copy is deleted with the Kyma.

`plan` holds the rules, `apply` writes the copy.
"""
