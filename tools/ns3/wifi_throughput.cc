// Throughput of saturated senders with 802.11n, ac or ax in ns-3, for tools/compare_ns3.py: some senders, one
// receiver, an ad hoc network at 5 GHz (no beacons), UDP payload of 1472 B. Prints the megabits per second that
// the receiver gets from one second after the start on.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/wifi-module.h"

#include <iostream>

using namespace ns3;

int
main(int argc, char* argv[])
{
    std::string standard = "802.11n";
    std::string mode = "HtMcs7";
    uint32_t width = 20;
    uint32_t interval = 800;
    uint32_t streams = 1;
    uint32_t ampdu = 65535;
    uint32_t window = 64;
    uint32_t senders = 1;
    uint32_t rts = 4692480;
    uint32_t run = 1;
    double loss = 0;
    double seconds = 2;
    double offered = 100;
    CommandLine line;
    line.AddValue("standard", "802.11n, 802.11ac or 802.11ax", standard);
    line.AddValue("mode", "mode of the data", mode);
    line.AddValue("width", "MHz", width);
    line.AddValue("interval", "guard interval in ns", interval);
    line.AddValue("streams", "spatial streams", streams);
    line.AddValue("ampdu", "maximum length of an A-MPDU in bytes", ampdu);
    line.AddValue("window", "block-ack window", window);
    line.AddValue("senders", "number of senders", senders);
    line.AddValue("rts", "RTS threshold in bytes", rts);
    line.AddValue("run", "number of the run", run);
    line.AddValue("loss", "probability that the receiver loses an MPDU", loss);
    line.AddValue("seconds", "measured time", seconds);
    line.AddValue("offered", "load of each sender in Mbps", offered);
    line.Parse(argc, argv);

    RngSeedManager::SetRun(run);
    Config::SetDefault("ns3::WifiMacQueue::MaxSize", QueueSizeValue(QueueSize("1000p")));
    Config::SetDefault("ns3::WifiMacQueue::MaxDelay", TimeValue(Seconds(100)));
    Config::SetDefault("ns3::WifiRemoteStationManager::RtsCtsThreshold", UintegerValue(rts));

    NodeContainer nodes(senders + 1);
    YansWifiPhyHelper phy;
    phy.SetChannel(YansWifiChannelHelper::Default().Create());
    phy.Set("ChannelSettings", StringValue("{0, " + std::to_string(width) + ", BAND_5GHZ, 0}"));
    phy.Set("Antennas", UintegerValue(streams));
    phy.Set("MaxSupportedTxSpatialStreams", UintegerValue(streams));
    phy.Set("MaxSupportedRxSpatialStreams", UintegerValue(streams));
    WifiHelper wifi;
    wifi.SetStandard(standard == "802.11n"    ? WIFI_STANDARD_80211n
                     : standard == "802.11ac" ? WIFI_STANDARD_80211ac
                                              : WIFI_STANDARD_80211ax);
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager", "DataMode", StringValue(mode));
    if (standard == "802.11ax")
    {
        wifi.ConfigHeOptions("GuardInterval", TimeValue(NanoSeconds(interval)));
    }
    else
    {
        wifi.ConfigHtOptions("ShortGuardIntervalSupported", BooleanValue(interval == 400));
    }
    WifiMacHelper mac;
    mac.SetType("ns3::AdhocWifiMac",
                "BE_MaxAmpduSize",
                UintegerValue(ampdu),
                "MpduBufferSize",
                UintegerValue(window));
    auto devices = wifi.Install(phy, mac, nodes);
    wifi.AssignStreams(devices, 1000 * run);

    MobilityHelper mobility;
    mobility.SetPositionAllocator("ns3::GridPositionAllocator",
                                  "DeltaX",
                                  DoubleValue(0.001),
                                  "DeltaY",
                                  DoubleValue(0.001));
    mobility.SetMobilityModel("ns3::ConstantPositionMobilityModel");
    mobility.Install(nodes);
    InternetStackHelper().Install(nodes);
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.0.0.0", "255.255.255.0");
    auto interfaces = addresses.Assign(devices);
    // Without it, a lost ARP request silences a sender for one second or, after three, for 100 s.
    NeighborCacheHelper().PopulateNeighborCache();

    UdpServerHelper server(9);
    auto sink = server.Install(nodes.Get(0));
    UdpClientHelper client(interfaces.GetAddress(0), 9);
    client.SetAttribute("PacketSize", UintegerValue(1472));
    client.SetAttribute("MaxPackets", UintegerValue(0));
    client.SetAttribute("Interval", TimeValue(Seconds(1472 * 8 / (offered * 1e6))));
    for (uint32_t sender = 1; sender <= senders; ++sender)
    {
        auto app = client.Install(nodes.Get(sender));
        app.Start(Seconds(0.01 * sender));
    }
    if (loss > 0)
    {
        auto errors = CreateObject<RateErrorModel>();
        errors->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
        errors->SetRate(loss);
        errors->AssignStreams(7);
        auto device = DynamicCast<WifiNetDevice>(devices.Get(0));
        Simulator::Schedule(Seconds(0.5),
                            [=] { device->GetPhy()->SetPostReceptionErrorModel(errors); });
    }
    uint64_t before = 0;
    auto received = [&] { return DynamicCast<UdpServer>(sink.Get(0))->GetReceived(); };
    Simulator::Schedule(Seconds(1), [&] { before = received(); });
    Simulator::Stop(Seconds(1 + seconds));
    Simulator::Run();
    std::cout << (received() - before) * 1472 * 8 / seconds / 1e6 << std::endl;
    Simulator::Destroy();
    return 0;
}
