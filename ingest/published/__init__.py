"""A lake published on object storage: the same Parquet files, listed by Apache Iceberg tables that other engines read.

    TARGET/events/data/dt=YYYY-MM-DD/NAME-DIGEST.parquet    files of the lake, byte for byte; DIGEST is the manifest's
          events/metadata/                                  Iceberg metadata, and version-hint.text for engines without a catalog
          objects/ repeats/                                 likewise

Modules that need pyiceberg are loaded only for a published lake: the extra `object-storage` brings it.
"""
