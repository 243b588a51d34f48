"""The deletion of a Kyma: `plan` decides on the stages, of which the order is what keeps objects safe; `apply` acts."""
