"""Writes the deep copies of the types in Go, in the form of controller-gen."""

from collections.abc import Iterable

import msgspec

from libraries.api.generate_go.model import GoField, GoStruct, Map, Pointer, Scalar, Slice, fields_of
from lifecycle_manager_api.kinds import ApiObject


def deep_copies_text(structs: Iterable[type[msgspec.Struct]]) -> str:
    """Return the deep copies of structs; a kind and its list are objects of a scheme."""
    return "\n\n".join(text for kind in sorted(structs, key=lambda each: each.__name__) for text in _texts(kind))


def _texts(kind: type[msgspec.Struct]) -> list[str]:
    name = kind.__name__
    if not issubclass(kind, ApiObject):
        return [_deep_copy(name, [_copied(field) for field in fields_of(kind)])]
    fields = [field for field in fields_of(kind) if field.name in {"Spec", "Status"}]
    whole = ["\tout.TypeMeta = in.TypeMeta", "\tin.ObjectMeta.DeepCopyInto(&out.ObjectMeta)", *map(_copied, fields)]
    items = _guarded("Items", _slice(GoStruct(name)))
    listed = ["\tout.TypeMeta = in.TypeMeta", "\tin.ListMeta.DeepCopyInto(&out.ListMeta)", items]
    return [_deep_copy(name, whole), _object(name), _deep_copy(f"{name}List", listed), _object(f"{name}List")]


def _deep_copy(name: str, statements: Iterable[str]) -> str:
    body = "".join(f"{each}\n" for each in statements if each)
    return f"""\
// DeepCopyInto copies the receiver into out, which must not be nil.
func (in *{name}) DeepCopyInto(out *{name}) {{
	*out = *in
{body}}}

// DeepCopy returns a copy of the receiver.
func (in *{name}) DeepCopy() *{name} {{
	if in == nil {{
		return nil
	}}
	out := new({name})
	in.DeepCopyInto(out)
	return out
}}"""


def _object(name: str) -> str:
    return f"""\
// DeepCopyObject returns a copy of the receiver as a runtime.Object.
func (in *{name}) DeepCopyObject() runtime.Object {{
	if c := in.DeepCopy(); c != nil {{
		return c
	}}
	return nil
}}"""


def _copied(field: GoField) -> str:
    """Return the statement that copies a field; that of a scalar is part of the assignment of the whole."""
    match field.type:
        case Scalar():
            return ""
        case GoStruct():
            return f"\tin.{field.name}.DeepCopyInto(&out.{field.name})"
        case Pointer(to=Scalar(text=text)):
            return _guarded(field.name, [f"*out = new({text})", "**out = **in"])
        case Pointer():
            return _guarded(field.name, ["*out = (*in).DeepCopy()"])
        case Slice(of=of):
            return _guarded(field.name, _slice(of))
        case Map(of=of):
            made = f"*out = make(map[string]{of.text}, len(*in))"
            return _guarded(field.name, [made, "for key, val := range *in {", "\t(*out)[key] = val", "}"])


def _slice(of: Scalar | GoStruct) -> list[str]:
    made = f"*out = make([]{of.text}, len(*in))"
    if isinstance(of, Scalar):
        return [made, "copy(*out, *in)"]
    return [made, "for i := range *in {", "\t(*in)[i].DeepCopyInto(&(*out)[i])", "}"]


def _guarded(name: str, statements: Iterable[str]) -> str:
    inner = [f"in, out := &in.{name}, &out.{name}", *statements]
    return "\n".join([f"\tif in.{name} != nil {{", *(f"\t\t{each}" for each in inner), "\t}"])
