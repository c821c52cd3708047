"""Pictures and text as vectors."""

from admil.features.cache import FeatureCache, cache_folder
from admil.features.choice import PictureEncoderName, picture_encoder
from admil.features.encode import encode_pictures, encode_texts
from admil.features.encoder import Picture, PictureEncoder, TextEncoder
from admil.features.modules import ModuleEncoder
from admil.features.pictures import MAX_PIXELS, PICTURE_SUFFIXES, read_picture
from admil.features.pixels import PixelEncoder
from admil.features.tfidf import TfIdf

__all__ = [
    "MAX_PIXELS",
    "PICTURE_SUFFIXES",
    "FeatureCache",
    "ModuleEncoder",
    "Picture",
    "PictureEncoder",
    "PictureEncoderName",
    "PixelEncoder",
    "TextEncoder",
    "TfIdf",
    "cache_folder",
    "encode_pictures",
    "encode_texts",
    "picture_encoder",
    "read_picture",
]
