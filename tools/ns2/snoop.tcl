# File transfer over: server --10 Mbps, 1 ms-- base station --wireless (2 Mbps, 3 ms)-- client, with ns-2's Snoop at the base
# station or without.  Stock ns-2 only.  Usage: ns snoop.tcl key=value ...   (prints one line of key=value results)
# Snoop is a link layer of a LAN (LL/LLSnoop), so the wireless link is a LAN of two stations with the plain Mac, which neither
# senses nor backs off: each station sends when its queue has a packet, as a full-duplex link does. It hands a packet to
# the other station at the START of its transmission; the client's link layer and Mac make up for that (below). Each packet
# takes 64 bytes more air than its size: Mac::txtime adds a header of its own (MAC_HDR_LEN).
# drop=5,17 loses the 5th and 17th packet arriving at the client (the SYN is 1), dropack the same at the base station; both
# need p=0.
array set o {
  tcp Reno  snoop 1  p 0.02  seed 1  packets 4000  pkt 1000  ackpkt 40  window 20  q 50  minrto 1  maxt 4000
  drop {}  dropack {}  trace {}
}
foreach a $argv {
  if {![regexp {^([a-z_]+)=(.*)$} $a -> k v] || ![info exists o($k)]} { puts stderr "bad arg $a"; exit 2 }
  set o($k) $v
}
set machdr 64
set bw 2e6
set prop 0.003
ns-random [expr {1000 + $o(seed)}]
set ns [new Simulator]
if {$o(trace) ne ""} { set tf [open $o(trace) w]; $ns trace-all $tf }

set S [$ns node]; set A [$ns node]; set C [$ns node]
$ns duplex-link $S $A 10Mb 1ms DropTail
$ns queue-limit $S $A $o(q); $ns queue-limit $A $S $o(q)

Mac set bandwidth_ $bw
Mac set delay_ 0
Channel set delay_ 0
set lan [new LanNode $ns -bw $bw -delay 0 -ifqType Queue/DropTail -ifqLen $o(q) -macType Mac -chanType Channel]
$lan addNode $A $bw 0 [expr {$o(snoop) ? "LL/LLSnoop" : "LL"}]
$lan addNode $C $bw 0 LL

source [file join [file dirname [info script]] channel.tcl]

proc airtime {bytes} {
  global bw machdr
  return [expr {8.0 * ($bytes + $machdr) / $bw}]
}
# A link layer delays what goes down and what comes up, a Mac what comes up. All of the way is put at the client, so that
# Snoop's clock and the queue's see what they would see at a point-to-point link.
set down [expr {$prop + [airtime $o(pkt)]}]
set up   [expr {$prop + [airtime $o(ackpkt)]}]
foreach {n d m} [list $A 0 0 $C $up [expr {$down - $up}]] {
  set nif [$lan set lanIface_($n)]
  [$nif set ll_] set delay_ $d
  set mac [$nif set mac_]
  # The SYN is as short as an ACK; a Mac cannot see that, but the first one is alone until 10 ms.
  $mac set delay_ 0
  $ns at 0.008 "$mac set delay_ $m"
  # Losses where a packet comes in, after the air.
  if {$o(p) > 0} {
    set e [new ErrorModel]; $e unit pkt; $e set rate_ $o(p)
    set r [new RNG]; $r seed [expr {104729 * $o(seed) + 7919 * [$n id] + 17}]
    set u [new RandomVariable/Uniform]; $u set min_ 0; $u set max_ 1; $u use-rng $r
    $e ranvar $u
  } else {
    set e [new ErrorModel/Listed [split [expr {$n eq $C ? $o(drop) : $o(dropack)}] ,]]
  }
  $e drop-target [new Agent/Null]
  $e target [$mac up-target]
  $mac up-target $e
}

Agent/TCP set packetSize_ $o(pkt)
Agent/TCP set window_ $o(window)
Agent/TCP set useHeaders_ false
Agent/TCP set minrto_ $o(minrto)
Agent/TCPSink set packetSize_ $o(ackpkt)
set tcp [new Agent/TCP/$o(tcp)]; set sink [new Agent/TCPSink]
$ns attach-agent $S $tcp; $ns attach-agent $C $sink; $ns connect $tcp $sink
set ftp [new Application/FTP]; $ftp attach-agent $tcp

proc report {why} {
  global ns o tcp tf
  set t [$ns now]
  set line "why=$why tcp=$o(tcp) snoop=$o(snoop) p=$o(p) seed=$o(seed)"
  append line [format " sec=%.4f kbps=%.4f" $t [expr {[$tcp set ack_] * $o(pkt) * 8.0 / 1000.0 / $t}]]
  append line " sent=[$tcp set ndatapack_] rexmt=[$tcp set nrexmitpack_] rto=[$tcp set nrexmit_] cuts=[$tcp set ncwndcuts_]"
  puts $line
  if {$o(trace) ne ""} { $ns flush-trace; close $tf }
  exit 0
}
$tcp proc done {} { report done }
$ns at 0.0 "$ftp producemore $o(packets)"
$ns at $o(maxt) "report timeout"
$ns run
