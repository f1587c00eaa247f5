// Throughput with 802.11n, ac or ax in ns-3, for tools/compare_ns3.py: some stations, one receiver, an ad hoc
// network at 5 GHz (no beacons). Each station sends saturated UDP with a payload of 1472 B in some access categories,
// or TCP (CUBIC, segments of 1448 B) to the receiver, from it, or both. Prints the megabits per second of each
// category, or of each direction of TCP, from two seconds after the start on.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/traffic-control-module.h"
#include "ns3/wifi-module.h"

#include <iostream>
#include <sstream>

using namespace ns3;

/// Loses MPDUs with data or TCP acknowledgments. Bodies of control frames are shorter than 40 B.
class MpduErrors : public ErrorModel
{
  public:
    MpduErrors(double loss, int64_t stream)
        : m_loss(loss),
          m_random(CreateObject<UniformRandomVariable>())
    {
        m_random->SetStream(stream);
    }

  private:
    bool DoCorrupt(Ptr<Packet> packet) override
    {
        return packet->GetSize() > 40 && m_random->GetValue() < m_loss;
    }

    void DoReset() override
    {
    }

    double m_loss;
    Ptr<UniformRandomVariable> m_random;
};

/// Type of service and name of an access category. ns-3 takes the user priority from the first three bits.
struct Category
{
    const char* name;
    uint8_t tos;
};

static const Category CATEGORIES[] = {{"BK", 0x20}, {"BE", 0x00}, {"VI", 0xa0}, {"VO", 0xc0}};

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
    double txop = -1;
    std::string categories = "BE";
    std::string tcp = "";
    uint32_t buffer = 131072;
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
    line.AddValue("loss", "probability that the receiver of an MPDU with data loses it", loss);
    line.AddValue("categories", "access categories of UDP: BK, BE, VI, VO, separated by commas", categories);
    line.AddValue("txop", "TXOP limit of all categories in microseconds, -1: those of ns-3", txop);
    line.AddValue("buffer", "send and receive buffers of TCP in bytes", buffer);
    line.AddValue("tcp", "directions of TCP instead of UDP: up, down or both", tcp);
    line.AddValue("seconds", "measured time", seconds);
    line.AddValue("offered", "load of each sender in Mbps", offered);
    line.Parse(argc, argv);

    RngSeedManager::SetRun(run);
    Config::SetDefault("ns3::WifiMacQueue::MaxSize", QueueSizeValue(QueueSize("1000p")));
    Config::SetDefault("ns3::WifiMacQueue::MaxDelay", TimeValue(Seconds(100)));
    Config::SetDefault("ns3::WifiRemoteStationManager::RtsCtsThreshold", UintegerValue(rts));

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpCubic::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(buffer));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(buffer));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));

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
    mac.SetType("ns3::AdhocWifiMac", "MpduBufferSize", UintegerValue(window));
    for (const auto& category : CATEGORIES)
    {
        Config::SetDefault("ns3::WifiMac::" + std::string(category.name) + "_MaxAmpduSize", UintegerValue(ampdu));
    }
    auto devices = wifi.Install(phy, mac, nodes);
    for (uint32_t index = 0; txop >= 0 && index <= senders; ++index)
    {
        auto one = DynamicCast<WifiNetDevice>(devices.Get(index))->GetMac();
        for (auto category : {AC_BK, AC_BE, AC_VI, AC_VO})
        {
            one->GetQosTxop(category)->SetTxopLimit(MicroSeconds(txop), 0);
        }
    }
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

    // One sink for each category, or for each direction of TCP.
    std::vector<ApplicationContainer> sinks;
    auto add = [&](uint32_t from, uint32_t to, uint16_t port, uint8_t tos, bool is_first) {
        InetSocketAddress address(interfaces.GetAddress(to), port);
        auto factory = tcp.empty() ? "ns3::UdpSocketFactory" : "ns3::TcpSocketFactory";
        if (is_first)
        {
            PacketSinkHelper sink(factory, InetSocketAddress(Ipv4Address::GetAny(), port));
            sinks.back().Add(sink.Install(nodes.Get(to)));
        }
        ApplicationContainer app;
        if (tcp.empty())
        {
            UdpClientHelper client(address);
            client.SetAttribute("PacketSize", UintegerValue(1472));
            client.SetAttribute("MaxPackets", UintegerValue(0));
            client.SetAttribute("Interval", TimeValue(Seconds(1472 * 8 / (offered * 1e6))));
            client.SetAttribute("Tos", UintegerValue(tos));
            app = client.Install(nodes.Get(from));
        }
        else
        {
            BulkSendHelper bulk(factory, address);
            bulk.SetAttribute("SendSize", UintegerValue(1448));
            app = bulk.Install(nodes.Get(from));
        }
        app.Start(Seconds(0.01 * std::max(from, to)));
    };
    uint16_t port = 9;
    if (tcp.empty())
    {
        std::istringstream names(categories);
        for (std::string name; std::getline(names, name, ','); ++port)
        {
            auto same = [&](const Category& one) { return name == one.name; };
            auto category = std::find_if(std::begin(CATEGORIES), std::end(CATEGORIES), same);
            NS_ABORT_MSG_IF(category == std::end(CATEGORIES), "unknown category " << name);
            sinks.emplace_back();
            for (uint32_t sender = 1; sender <= senders; ++sender)
            {
                add(sender, 0, port, category->tos, sender == 1);
            }
        }
    }
    if (tcp == "up" || tcp == "both")
    {
        sinks.emplace_back();
        for (uint32_t sender = 1; sender <= senders; ++sender)
        {
            add(sender, 0, 9, 0, sender == 1);
        }
    }
    if (tcp == "down" || tcp == "both")
    {
        sinks.emplace_back();
        for (uint32_t station = 1; station <= senders; ++station)
        {
            add(0, station, 10, 0, true);
        }
    }
    if (!tcp.empty())
    {
        TrafficControlHelper().Uninstall(devices);
    }
    for (uint32_t index = 0; loss > 0 && index <= senders; ++index)
    {
        auto device = DynamicCast<WifiNetDevice>(devices.Get(index));
        auto errors = Create<MpduErrors>(loss, 10'000 * run + index);
        Simulator::Schedule(Seconds(0.5), [=] { device->GetPhy()->SetPostReceptionErrorModel(errors); });
    }
    auto received = [](const ApplicationContainer& apps) {
        uint64_t sum = 0;
        for (uint32_t index = 0; index < apps.GetN(); ++index)
        {
            sum += DynamicCast<PacketSink>(apps.Get(index))->GetTotalRx();
        }
        return sum;
    };
    std::vector<uint64_t> before;
    Simulator::Schedule(Seconds(2), [&] {
        for (const auto& apps : sinks)
        {
            before.push_back(received(apps));
        }
    });
    Simulator::Stop(Seconds(2 + seconds));
    Simulator::Run();
    for (std::size_t index = 0; index < sinks.size(); ++index)
    {
        std::cout << (received(sinks[index]) - before[index]) * 8 / seconds / 1e6 << std::endl;
    }
    Simulator::Destroy();
    return 0;
}
