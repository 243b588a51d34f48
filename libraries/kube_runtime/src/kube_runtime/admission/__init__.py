"""Admission webhooks: objects are checked and completed before they are stored.

`review` reads AdmissionReviews and answers them, `webhooks` calls the functions of an Operator, `serving` serves them
with a certificate of an own CA and keeps their configuration in the cluster.
"""
