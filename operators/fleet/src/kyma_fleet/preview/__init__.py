"""`klm preview`: what a release would change in the fleet, before it is released. Nothing is written.

`plan` asks the rules of Lifecycle Manager for each Kyma and wave, `command` reads and prints.
"""
