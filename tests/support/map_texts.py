"""OpenDRIVE by hand: small roads whose every number can be checked on paper."""

LINE = '<geometry s="0" x="0" y="0" hdg="0" length="100"><line/></geometry>'
LANES = (
    '<laneSection s="0"><left><lane id="1" type="driving"><link/><width sOffset="0" a="3" b="0" c="0" d="0"/></lane></left>'
    '<center><lane id="0" type="none"/></center>'
    '<right><lane id="-1" type="driving"><link/><width sOffset="0" a="3" b="0" c="0" d="0"/></lane></right></laneSection>'
)


def one_road(plan=LINE, lanes=LANES, *, length="100", before="", after="", attributes="", top=""):
    """A file with a single road; ``before`` stands in front of the lanes, ``after`` behind them."""
    return (
        '<?xml version="1.0"?><OpenDRIVE><header revMajor="1" revMinor="4" name="" version="1"/>'
        f'<road name="" length="{length}" id="7" junction="-1" {attributes}><link/>'
        f"<planView>{plan}</planView>{before}<lanes>{lanes}</lanes>{after}</road>{top}</OpenDRIVE>"
    )


def ends_at(kind, number):
    """A road whose successor is a road or junction of this number."""
    link = f'<link><successor elementType="{kind}" elementId="{number}" contactPoint="start"/></link>'
    return one_road().replace("<link/><planView>", f"{link}<planView>")


def bends():
    """Line, spiral, arc and spiral back to a line, uphill, with a lane that widens, an offset, and two sections."""
    plan = (
        '<geometry s="0" x="0" y="0" hdg="0.3" length="20"><line/></geometry>'
        '<geometry s="20" x="19.106729782512119" y="5.910404133226791" hdg="0.3" length="30">'
        '<spiral curvStart="0" curvEnd="0.04"/></geometry>'
    )
    lanes = (
        '<laneOffset s="0" a="0" b="0" c="0" d="0"/><laneOffset s="10" a="0" b="0" c="0.0008" d="0"/>'
        '<laneSection s="0"><left><lane id="1" type="driving"><link><successor id="1"/></link>'
        '<width sOffset="0" a="3" b="0.02" c="0" d="0"/></lane></left><center><lane id="0" type="none"/></center>'
        '<right><lane id="-1" type="driving"><link><successor id="-1"/></link><width sOffset="0" a="3" b="0" c="0" d="0"/>'
        '<width sOffset="10" a="3" b="0" c="0.003" d="-0.0001"/></lane></right></laneSection>'
        '<laneSection s="30"><left><lane id="1" type="driving"><link><predecessor id="1"/></link>'
        '<width sOffset="0" a="3.6" b="0" c="0" d="0"/></lane></left><center><lane id="0" type="none"/></center>'
        '<right><lane id="-1" type="driving"><link><predecessor id="-1"/></link>'
        '<width sOffset="0" a="3.4" b="0" c="0" d="0"/></lane></right></laneSection>'
    )
    uphill = '<elevationProfile><elevation s="0" a="1" b="0.02" c="0.0005" d="0"/></elevationProfile>'
    return one_road(plan, lanes, length="50", before=uphill)
