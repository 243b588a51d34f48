"""Why a cluster is as it is, in the order of cause: what `klm explain`, `klm trace` and the fleet page show alike.

`facts` is what is known of a Kyma, `chain` turns it into links by the rules of the controllers themselves, `tree` puts
the objects below them, `moments` finds when what was written; all of these are pure. `reading` reads for them from the
API server, `marks` are the annotations that operators leave.
"""
