"""Every example query of the CQL paper (Arasu, Babu, Widom), section by section, with the DDL that it needs.

The texts are the paper's own, down to letter case and line breaks. Where the paper leaves a part open (a select-list L,
a condition C, a query Q, a time-interval T), something stands in for it and `note` says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LINEAR_ROAD = """
CREATE STREAM PosSpeedStr (vehicleId INT, speed INT, xPos INT) TIMESTAMP BY ts TICK INTERVAL '1' SECOND;
"""

SEG_SPEED_STR = """Select vehicleId, speed,
      xPos/5280 as segNo
From PosSpeedStr"""

ACTIVE_VEHICLE_SEG_REL = """Select vehicleId, segNo
From SegSpeedStr [Range 30 Seconds]"""

VEHICLE_SEG_ENTRY_STR = """Select Istream(*)
From ActiveVehicleSegRel"""

CONGESTED_SEG_REL = """Select segNo
From SegSpeedStr [Range 5 Minutes]
Group By segNo
Having Avg(speed) < 40"""

SEG_VOL_REL = """Select segNo,
      count(vehicleId) as numVehicles
From ActiveVehicleSegRel
Group By segNo"""

LINEAR_ROAD_VIEWS = f"""
{LINEAR_ROAD}
CREATE VIEW SegSpeedStr AS {SEG_SPEED_STR};
CREATE VIEW ActiveVehicleSegRel AS {ACTIVE_VEHICLE_SEG_REL};
CREATE VIEW VehicleSegEntryStr AS {VEHICLE_SEG_ENTRY_STR};
CREATE VIEW CongestedSegRel AS {CONGESTED_SEG_REL};
CREATE VIEW SegVolRel AS {SEG_VOL_REL};
"""

MIRRORED_TIMESTAMP = """
CREATE STREAM PosSpeedStr (vehicleId INT, Speed INT, xPos INT, timestamp BIGINT) TIMESTAMP BY timestamp;
"""

ITEMS = """
CREATE STREAM Items (itemID INT) TIMESTAMP BY ts;
CREATE STREAM Item (id INT) TIMESTAMP BY ts;
CREATE TABLE PriceTable (itemId INT, price INT);
"""

TWO_STREAMS = """
CREATE STREAM S1 (A INT, B INT) TIMESTAMP BY ts TICK INTERVAL '1' SECOND;
CREATE STREAM S2 (A INT, B INT) TIMESTAMP BY ts TICK INTERVAL '1' SECOND;
"""

NAMED_STREAMS = """
CREATE STREAM S1 (num INT, name STRING) TIMESTAMP BY ts;
CREATE STREAM S2 (num INT, name STRING) TIMESTAMP BY ts;
"""

ONE_STREAM = """
CREATE STREAM S (a INT, b INT) TIMESTAMP BY ts;
"""

Kind = Literal["stream", "relation"]


@dataclass(frozen=True)
class PaperQuery:
    section: str
    name: str
    setup: str
    kind: Kind
    text: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.section}-{self.name}".replace(" ", "_")


QUERIES: tuple[PaperQuery, ...] = (
    PaperQuery("1", "price of recent items", ITEMS, "relation", """Select P.price
From Items[Rows 5] as I, PriceTable as P
Where I.itemID = P.itemID"""),
    PaperQuery("5", "Example 3", ONE_STREAM, "stream", "Select Istream(*) From S [Rows 1] Where a > b",
               note="<filter> is a > b"),
    PaperQuery("6.1.1", "Example 5 range", LINEAR_ROAD, "relation",
               "Select * From PosSpeedStr [Range 30 Seconds]", note="only the window is the paper's"),
    PaperQuery("6.1.1", "Example 5 now", LINEAR_ROAD, "relation",
               "Select * From PosSpeedStr [Now]", note="only the window is the paper's"),
    PaperQuery("6.1.1", "Example 5 unbounded", LINEAR_ROAD, "stream",
               "Select * From PosSpeedStr [Range Unbounded]", note="only the window is the paper's"),
    PaperQuery("6.1.2", "Example 6", LINEAR_ROAD, "relation",
               "Select * From PosSpeedStr [Rows 1]", note="only the window is the paper's"),
    PaperQuery("6.1.2", "Rows Unbounded", LINEAR_ROAD, "stream",
               "Select * From PosSpeedStr [Rows Unbounded]", note="only the window is the paper's"),
    PaperQuery("6.1.3", "Example 7", LINEAR_ROAD, "relation",
               "Select * From PosSpeedStr [Partition By vehicleId Rows 1]", note="only the window is the paper's"),
    PaperQuery("6.1.4", "Example 8", LINEAR_ROAD, "relation",
               "Select * From PosSpeedStr [Range 1 Minute Slide 1 Minute]", note="only the window is the paper's"),
    PaperQuery("6.2", "Example 9", LINEAR_ROAD, "relation", """Select Distinct vehicleId
From PosSpeedStr [Range 30 Seconds]"""),
    PaperQuery("6.3", "Example 10 Istream", LINEAR_ROAD, "stream", """Select Istream(*)
From PosSpeedStr [Range Unbounded]
Where speed > 65"""),
    PaperQuery("6.3", "Example 10 Rstream", LINEAR_ROAD, "stream", """Select Rstream(*)
From PosSpeedStr [Now]
Where speed > 65"""),
    PaperQuery("6.3", "Example 10 intuitive", LINEAR_ROAD, "stream", """Select *
From PosSpeedStr
Where speed > 65"""),
    PaperQuery("6.3", "Example 11", LINEAR_ROAD, "stream", """Select Dstream(VehicleId)
From PosSpeedStr [Range 30 Seconds]"""),
    PaperQuery("6.4", "Example 12", LINEAR_ROAD, "stream", """Select *
From PosSpeedStr
Where speed > 65"""),
    PaperQuery("7", "Query 1", LINEAR_ROAD, "stream", SEG_SPEED_STR),
    PaperQuery("7", "Query 2", LINEAR_ROAD_VIEWS, "relation", ACTIVE_VEHICLE_SEG_REL),
    PaperQuery("7", "Query 3", LINEAR_ROAD_VIEWS, "stream", VEHICLE_SEG_ENTRY_STR),
    PaperQuery("7", "Query 4", LINEAR_ROAD_VIEWS, "relation", CONGESTED_SEG_REL),
    PaperQuery("7", "Query 5", LINEAR_ROAD_VIEWS, "relation", SEG_VOL_REL),
    PaperQuery("7", "Query 6", LINEAR_ROAD_VIEWS, "stream", """Select Rstream(E.vehicleId,
              2 * (V.numVehicles-50)
              * (V.numVehicles-50)
              as toll)
From VehicleSegEntryStr [Now] as E,
   CongestedSegRel as C,
   SegVolRel as V
Where E.segNo = C.segNo and
      C.segNo = V.segNo"""),
    PaperQuery("8.1", "Example 13", MIRRORED_TIMESTAMP, "relation", """Select Max(timestamp) - Min(timestamp)
From PosSpeedStr [Rows 2]"""),
    PaperQuery("9.2", "current price", ITEMS, "stream", """Select Rstream(Item.id,
                PriceTable.price)
From Item [Now], PriceTable
Where Item.id = PriceTable.itemId"""),
    PaperQuery("9.2", "new prices of old items", ITEMS, "stream", """Select Istream(Item.id,
                PriceTable.price)
From Item [Range Unbounded],
PriceTable
Where Item.id = PriceTable.itemId"""),
    PaperQuery("9.3", "sliding-window join", TWO_STREAMS, "stream", """Select Istream(*)
From   S1 [Rows 5], S2 [Rows 10]
Where  S1.A = S2.A"""),
    PaperQuery("9.4", "count on change", LINEAR_ROAD, "stream", """Select Istream(Count(*))
From PosSpeedStr [Range 1 Minute]"""),
    PaperQuery("9.4", "count once a minute", LINEAR_ROAD, "stream", """Select Istream(Count(*))
From PosSpeedStr [Range 1 Minute
                  Slide 1 Minute]"""),
    PaperQuery("10.1", "window reduction, unbounded", ONE_STREAM, "stream", """Select Istream(a)
From S [Range Unbounded]
Where b > 1""", note="L is a, C is b > 1"),
    PaperQuery("10.1", "window reduction, now", ONE_STREAM, "stream", """Select Rstream(a)
From S [Now]
Where b > 1""", note="L is a, C is b > 1"),
    PaperQuery("10.2", "filter before window", ONE_STREAM, "relation", "(Select a From S Where b > 1) [Range 5]",
               note="L is a, C is b > 1, T is 5 ticks"),
    PaperQuery("10.2", "filter after window", ONE_STREAM, "relation", "Select a From S [Range 5] Where b > 1",
               note="L is a, C is b > 1, T is 5 ticks"),
    PaperQuery("11.1", "join of chronicles", TWO_STREAMS, "stream", """Select Rstream(*)
From S1 [Now], S2 [Now]
Where S1.A = S2.B"""),
    PaperQuery("11.2", "Tapestry", ONE_STREAM, "stream", """Select Istream(Distinct *)
From (Istream(Select a From S [Range 5])) [Range Unbounded]""", note="Q is Select a From S [Range 5]"),
    PaperQuery("11.6", "stream-only operator", TWO_STREAMS, "stream",
               "Rstream(Select A From S1 [Now] Union All Select A From S2 [Now])",
               note="O is Union All; the paper writes Rstream(O(S1[Now], ..., Sn[Now]))"),
    PaperQuery("11.6", "stream-only window", TWO_STREAMS, "stream", "Rstream(Select * From S1 [Rows 5])",
               note="W is Rows 5; the paper writes Rstream(S[W])"),
    PaperQuery("12.3", "Q1", TWO_STREAMS, "relation", """Select B, max(A)
      From S1 [Rows 50,000]
      Group By B"""),
    PaperQuery("12.3", "Q2", TWO_STREAMS, "stream", """Select Istream(*)
      From S1 [Rows 40,000],
           S2 [Range 600 Seconds]
      Where S1.A = S2.A"""),
    PaperQuery("12.7", "Figure 6", NAMED_STREAMS, "relation", """Select S2.name, max(S1.num)
From   S1 [Rows 50,000],
       S2 [Rows 50,000]
Where  S1.name <= 'i' and
       S1.num = S2.num
Group By S2.name"""),
)  # fmt: skip
