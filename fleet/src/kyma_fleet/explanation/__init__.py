"""`klm explain`: why a cluster is as it is, in the order of cause.

`facts` is what was read, `chain` turns it into links by the rules of the controllers themselves, `report` prints them.
"""
