# A sender of ns-2's Linux TCP (Agent/TCP/Linux) with one of its congestion modules, over a path of 4 Mbps and 100 ms that loses listed packets.
# Usage: ns laws.tcl MODULE DROP TRACE SECONDS, DROP being packets counted from 1 with commas. TRACE gets a line per change of the window and the threshold, and
# ns-2's own packet trace.
lassign $argv module drop path seconds
set ns [new Simulator]
set file [open $path w]
$ns trace-all $file
set server [$ns node]
set client [$ns node]
$ns duplex-link $server $client 4Mb 50ms DropTail
$ns queue-limit $server $client 2000

set tcp [new Agent/TCP/Linux]
$tcp set timestamps_ true
$tcp set window_ 200
$tcp set packetSize_ 960
$tcp set tcpTick_ 0.001
set sink [new Agent/TCPSink/Sack1]
$sink set ts_echo_rfc1323_ true
$ns attach-agent $server $tcp
$ns attach-agent $client $sink
$ns connect $tcp $sink
$tcp attach $file
$tcp trace cwnd_
$tcp trace ssthresh_
$ns at 0 "$tcp select_ca $module"

set losses [new ErrorModel/List]
$losses droplist [split $drop ,]
$ns lossmodel $losses $server $client
set file_transfer [new Application/FTP]
$file_transfer attach-agent $tcp
$ns at 0 "$file_transfer start"
$ns at $seconds "$ns flush-trace; close $file; exit 0"
$ns run
