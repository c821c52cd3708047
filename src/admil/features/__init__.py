"""Pictures and text as vectors."""

from admil.features.cache import CacheSize, FeatureCache, cache_folder
from admil.features.choice import PictureEncoderName, picture_encoder
from admil.features.encode import encode_pictures, encode_texts
from admil.features.encoder import Picture, PictureEncoder, TextEncoder
from admil.features.minilm import MiniLM
from admil.features.modules import IMAGENET_MEAN, IMAGENET_STD, ModuleEncoder, Precision
from admil.features.onnxfile import OnnxEncoder
from admil.features.pictures import MAX_PIXELS, PICTURE_SUFFIXES, read_picture
from admil.features.pixels import PixelEncoder
from admil.features.tfidf import TfIdf, english_stop_words

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "MAX_PIXELS",
    "PICTURE_SUFFIXES",
    "CacheSize",
    "FeatureCache",
    "MiniLM",
    "ModuleEncoder",
    "OnnxEncoder",
    "Picture",
    "PictureEncoder",
    "PictureEncoderName",
    "PixelEncoder",
    "Precision",
    "TextEncoder",
    "TfIdf",
    "cache_folder",
    "encode_pictures",
    "encode_texts",
    "english_stop_words",
    "picture_encoder",
    "read_picture",
]
