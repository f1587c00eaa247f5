// Prints the duration of PPDUs of 802.11n, ac and ax at 5 GHz as ns-3 computes it: format, MCS of a stream,
// spatial streams, MHz, guard interval in ns, bytes, duration in ns. The example ppdu_durations of lasthop-wlan
// prints the same list.
#include "ns3/he-phy.h"
#include "ns3/ht-phy.h"
#include "ns3/vht-phy.h"
#include "ns3/wifi-phy.h"
#include "ns3/wifi-tx-vector.h"

#include <iostream>
#include <string>
#include <vector>

using namespace ns3;

int main()
{
    struct Format
    {
        std::string name;
        int maxMcs;
        WifiPreamble preamble;
        std::vector<int> widths;
        std::vector<int> intervals;
    };
    const std::vector<Format> formats = {
        {"HT", 7, WIFI_PREAMBLE_HT_MF, {20, 40}, {400, 800}},
        {"VHT", 9, WIFI_PREAMBLE_VHT_SU, {20, 40, 80}, {400, 800}},
        {"HE", 11, WIFI_PREAMBLE_HE_SU, {20, 40, 80}, {800, 1600, 3200}},
    };
    for (const auto& format : formats)
        for (int mcs = 0; mcs <= format.maxMcs; ++mcs)
            for (int streams = 1; streams <= 2; ++streams)
                for (int width : format.widths)
                    for (int interval : format.intervals)
                    {
                        if (format.name == "VHT" && mcs == 9 && width == 20)
                            continue;
                        WifiMode mode = format.name == "HT"    ? HtPhy::GetHtMcs(mcs + 8 * (streams - 1))
                                        : format.name == "VHT" ? VhtPhy::GetVhtMcs(mcs)
                                                               : HePhy::GetHeMcs(mcs);
                        WifiTxVector vector(mode, 0, format.preamble, NanoSeconds(interval), streams,
                                            streams, 0, width, false);
                        for (int bytes : {14, 76, 78, 1000, 1538, 1542, 3086, 7998, 43230, 65534})
                        {
                            auto time = WifiPhy::CalculateTxDuration(bytes, vector, WIFI_PHY_BAND_5GHZ);
                            std::cout << format.name << ' ' << mcs << ' ' << streams << ' ' << width << ' '
                                      << interval << ' ' << bytes << ' ' << time.GetNanoSeconds() << '\n';
                        }
                    }
}
